"""Groups that a certificate cannot hold are refused before anything is charged."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from skfairdp import FairDPClassifier, certify
from skfairdp.privacy import PrivacyLedger


@pytest.mark.parametrize(
    "labels",
    [(date(2026, 1, 1), "2026-01-01"), (b"a", "b'a'"), ("a", "\ud800"), (1.0, float("inf"))],
    ids=ascii,
)
def test_groups_that_a_certificate_cannot_hold_cost_nothing(labels: Any, tmp_path: Path) -> None:
    X, groups = np.zeros((40, 1)), np.empty(40, dtype=object)
    groups[::2], groups[1::2] = labels
    model = DummyClassifier().fit(X, np.tile([0, 1], 20))
    ledger = PrivacyLedger(tmp_path / "spent.db")
    with pytest.raises(ValueError, match=r"cannot be distinguished.*Give each group a text"):
        certify(model, X, sensitive_features=groups, count_epsilon=1.0, groups=labels,
                ledger=ledger)  # fmt: skip
    assert ledger.entries() == ()


def test_a_fit_refuses_a_group_that_no_file_holds(tmp_path: Path) -> None:
    X, groups = np.random.default_rng(0).normal(size=(40, 2)), ["a", "\ud800"] * 20
    ledger = PrivacyLedger(tmp_path / "spent.db")
    model = FairDPClassifier(max_epochs=1, delta=1e-3, progress=False, ledger=ledger)
    with pytest.raises(ValueError, match=r"cannot write the group label '\\ud800'"):
        model.fit(X, X[:, 0] > 0, sensitive_features=groups)
    assert ledger.entries() == ()
