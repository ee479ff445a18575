"""The sequential audit refutes wrong claims early, and right ones as seldom as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tests.sequential import refuted_after

EPSILON, DELTA, AUDITS = 1.0, 0.004, 200


def refutations(scores: np.ndarray, thresholds: np.ndarray, error: float) -> list[int | None]:
    settings = dict(epsilon=EPSILON, delta=DELTA, error=error)
    return [refuted_after(pairs, thresholds, **settings) for pairs in scores]


# Scores of 0 and 1 at rates that the claim just allows; the second kind is the first with the
# answers exchanged.
@pytest.mark.parametrize("alarm", [0.02, 0.2])
@pytest.mark.parametrize("exchanged", [False, True])
def test_a_right_claim_is_refuted_as_seldom_as_stated(alarm: float, exchanged: bool) -> None:
    found = math.exp(EPSILON) * alarm + DELTA
    rates = (1.0 - alarm, 1.0 - found) if exchanged else (found, alarm)
    scores = np.random.default_rng(0).random((AUDITS, 150, 2)) < rates
    wrong = sum(r is not None for r in refutations(scores, np.array([0.5]), 0.05))
    # More have probability below 1e-6 at a test of exactly this error.
    assert wrong <= stats.binom.isf(1e-6, AUDITS, 0.05)


def test_a_wrong_claim_is_refuted_early() -> None:
    """Two Gaussians that are 1.76 apart, as after a quarter of the noise for this claim."""
    scores = np.random.default_rng(0).normal(size=(AUDITS, 600, 2)) + (1.76, 0.0)
    stopped = refutations(scores, np.linspace(-1.0, 3.0, 13), 1e-3)
    assert None not in stopped
    assert np.median(stopped) < 150
