"""Rows that an estimator was trained on are known again, as they bound nothing for other people."""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp import certify
from tests.common.roster import EVERY, each, once, people

CHECKS_TRAINING_ROWS = True
# What releases rows bounds what follows from these releases, of whichever rows.
NAMES = [name for name, (kind, _) in EVERY.items() if kind != "releasing"]


@each(NAMES)
def test_rows_of_a_fit_are_refused_and_others_are_not(name: str) -> None:
    # Of estimators that vote every other row is public.
    private = slice(None, None, 2 if EVERY[name][0] == "voting" else 1)
    X, _, groups = (part[private] for part in people())
    others, _, theirs = (part[private] for part in people(seed=1))
    with pytest.raises(ValueError, match="trained on many of these rows"):
        certify(once(name), X, sensitive_features=groups, holdout="public")
    certify(once(name), others, sensitive_features=theirs, holdout="public")
    together, of_all = np.concatenate([others, X]), np.concatenate([theirs, groups])
    if EVERY[name][0] != "tables":  # which nothing predicts
        with pytest.raises(ValueError, match="trained on many of these rows"):
            certify(once(name), together, sensitive_features=of_all, holdout="public")
