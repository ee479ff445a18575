"""An audit of many trainings that stops as soon as it refutes the claim.

Trainings come in pairs, with the canary and without it, each with a score that is larger where
it looks like one with. Take any set of scores that is chosen before. If the claim (epsilon,
delta) is right, a bet that pays ``1 + share * (a - exp(epsilon) * b - delta)`` a pair, where a is 1
if the score with the canary is in the set and b if the one without is, grows by 1 at most in
expectation. Here the sets are what is above a threshold and what is below, for several. The
mean of all bets reaches ``1 / error`` with chance `error` at most, whenever one stops (Ville).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu
from sklearn.base import clone

from skfairdp.audit import Canaries
from skfairdp.audit.canaries import Score
from skfairdp.audit.declared import claim_about, declare_sizes, fit_with

# Of what may be bet without going broke.
SHARES = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])


def refuted_after(
    pairs: Iterable[tuple[float, float]],
    thresholds: np.ndarray,
    *,
    epsilon: float,
    delta: float,
    error: float,
) -> int | None:
    """Number of pairs of scores, with and without, that refute (epsilon, delta), or None.

    A right claim is refuted with chance `error` at most, however many pairs there are.
    """
    shares = SHARES[:, None, None] / (math.exp(epsilon) + delta)
    log_wealth = np.zeros((len(SHARES), 2, len(thresholds)))
    for count, pair in enumerate(pairs, start=1):
        above = [value >= thresholds for value in pair]
        there, gone = (np.stack([part, ~part]) for part in above)
        log_wealth += np.log1p(shares * (there - math.exp(epsilon) * gone - delta))
        mean = np.logaddexp.reduce(log_wealth, axis=None) - math.log(log_wealth.size)
        if mean >= -math.log(error):
            return count
    return None


@dataclass(frozen=True)
class Audited:
    """What a sequential audit saw until it stopped."""

    refuted: bool
    claimed_epsilon: float
    scores: np.ndarray  # of shape (n_pairs, 2): with the canary, without it

    def p_value_of_no_difference(self) -> float:
        """Of "scores are no larger with the canary": small where the attack sees anything."""
        return float(mannwhitneyu(*self.scores.T, alternative="greater").pvalue)


def audit_pairs(
    estimator: Any,
    X: np.ndarray,
    y: np.ndarray,
    canary: Canaries,
    *,
    score: Score,
    error: float,
    n_pairs: int,
    n_first: int = 20,
    sensitive_features: np.ndarray | None = None,
) -> Audited:
    """Train in pairs until the claim is refuted, `n_pairs` at most.

    The thresholds are scores of `n_first` pairs more, which are not counted.
    """
    model = declare_sizes(estimator, X, y, canary, sensitive_features)

    def one(present: bool) -> tuple[float, Any]:
        guest = canary.take(np.array([present]))
        fitted = fit_with(clone(model), X, y, guest, sensitive_features)
        return float(np.asarray(score(fitted, canary.X, canary.y)).item()), fitted

    first = [one(present) for present in (True, False) * n_first]
    epsilon, delta = claim_about(first[0][1], canary)
    thresholds = np.quantile([value for value, _ in first], np.linspace(0.05, 0.95, 13))
    seen: list[tuple[float, float]] = []

    def pairs() -> Iterator[tuple[float, float]]:
        for _ in range(n_pairs):
            seen.append((one(True)[0], one(False)[0]))
            yield seen[-1]

    stopped = refuted_after(pairs(), thresholds, epsilon=epsilon, delta=delta, error=error)
    return Audited(stopped is not None, epsilon, np.array(seen))
