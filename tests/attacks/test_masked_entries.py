"""Masked entries of numpy's masked arrays are missing ones, whatever lies beneath the mask."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from skfairdp import DPSGDClassifier, FairDPClassifier, certify
from skfairdp.records.one_column import unmasked
from skfairdp.representation.release_memory import ReleaseMemory

N = 40
MASK = np.arange(N) == 3
RNG = np.random.default_rng(0)
X, Y, GROUPS = RNG.normal(size=(N, 3)), RNG.integers(2, size=N), RNG.integers(2, size=N)


def masked(values: np.ndarray) -> np.ma.MaskedArray:
    mask = MASK if values.ndim == 1 else np.outer(MASK, [True, False, False])
    return np.ma.array(values, mask=mask)


def new(kind):
    return kind(max_epochs=1, progress=False, delta=1e-3)


@pytest.mark.parametrize(
    ("fit", "says"),
    [
        (lambda: new(DPSGDClassifier).fit(masked(X), Y), "X contains NaN"),
        (lambda: new(DPSGDClassifier).fit(X, masked(Y)), "Every row needs a label"),
        (
            lambda: new(FairDPClassifier).fit(X, Y, sensitive_features=masked(GROUPS)),
            "Every row needs a group",
        ),
        (
            lambda: ReleaseMemory().streams(masked(GROUPS), np.zeros((len(X), 1), int), "a", "b"),
            "ids has missing entries",
        ),
    ],
    ids=["features", "labels", "groups", "ids"],
)
def test_masked_entries_are_refused_as_missing_ones(fit, says):
    with pytest.raises(ValueError, match=says):
        fit()


def test_a_row_with_a_masked_group_is_outside_the_claim():
    model = DummyClassifier().fit(X, Y)
    assert certify(model, X, sensitive_features=masked(GROUPS), holdout="public").n_rows == N - 1


def test_a_mask_that_masks_nothing_changes_nothing():
    assert type(unmasked(np.ma.array(Y))) is np.ndarray
    assert np.array_equal(unmasked(np.ma.array(Y)), Y)
