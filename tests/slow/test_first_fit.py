"""Tests of the start-up cost of the first fit of a process."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

FIT = """
import sys, numpy as np
from skfairdp import DPSGDClassifier, FairDPClassifier, PATEClassifier, PrivateFairEncoder
X, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 2
for kind in (DPSGDClassifier, FairDPClassifier, PrivateFairEncoder):
    kind(max_epochs=1).fit(X, y, sensitive_features=y)
PATEClassifier(n_teachers=4, epsilon=8.0, n_answers=20).fit(X, y, X_public=X)
assert "torch._dynamo" not in sys.modules
"""


def test_a_fit_does_not_import_a_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
