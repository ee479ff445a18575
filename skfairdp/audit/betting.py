"""Bets against a claim, on trainings with a record and without it; see docs/theory/audit.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Of what may be bet without going broke.
_SHARES = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])[:, np.newaxis]


class PairBets:
    """Betting evidence from pairs of scores, with and without the record, at fixed thresholds."""

    def __init__(self, thresholds: ArrayLike) -> None:
        self._thresholds = np.asarray(thresholds, dtype=np.float64)
        # Pairs by what they did: neither, the second alone, the first alone, both.
        self._counts = np.zeros((2 * self._thresholds.size, 4))

    def add(self, present: float, absent: float) -> None:
        """Add a pair of scores, with the record and without it."""
        above = np.array([present, absent])[:, np.newaxis] >= self._thresholds
        # The claim bounds how much oftener the first event happens than the second.
        first = np.concatenate([above[0], ~above[1]])
        second = np.concatenate([above[1], ~above[0]])
        self._counts[np.arange(len(first)), 2 * first + second] += 1

    def log_evidence(self, claims: Sequence[tuple[float, float]]) -> float:
        """Logarithm of a factor that reaches 1/error with chance `error` at most, ever.

        That is if all claims (epsilon, delta) are right. It falls with each epsilon.
        """
        terms = np.concatenate([_table(*claim) @ self._counts.T for claim in claims])
        return float(np.logaddexp.reduce(terms, axis=None)) - math.log(terms.size)

    def epsilon_lower_bound(self, error: float, delta: float) -> float:
        """Epsilon that is refuted with all below; above the true one with chance `error`, ever."""
        return largest(lambda e: self.log_evidence([(e, delta)]) >= -math.log(error), 50.0)


def largest(holds: Callable[[float], bool], end: float) -> float:
    """Largest number up to `end` at which a monotone condition holds; 0 if none."""
    low, high = 0.0, end
    if holds(high) or not holds(low):
        return high if holds(high) else low
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _table(epsilon: float, delta: float) -> NDArray[np.float64]:
    """Logarithms of the factors, by share and by outcome of a pair."""
    unit = math.exp(-epsilon) / (1.0 + delta * math.exp(-epsilon))
    neither = 1.0 - _SHARES * delta / (1.0 + delta)
    both, second = 1.0 - _SHARES * (1.0 - unit), 1.0 - _SHARES
    first = 1.0 + _SHARES * (1.0 - delta) * unit
    return np.log(np.concatenate([neither, second, first, both], axis=1))
