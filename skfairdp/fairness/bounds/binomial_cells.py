"""Binomial counts, plain or with noise: their laws, and limits for one rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import signal, special

# A window of a law leaves out a probability of exp(-_TAIL) on either side.
_TAIL = 36.0
_REMEMBERED = 50_000  # rows up to which the coefficients of a law are kept for the next one
# At 0 and 1 nearly the same law: what is lost is far below the slack.
_INNER = (1e-20, 1.0 - 2.0**-53)


def clopper_pearson(
    successes: ArrayLike, failures: ArrayLike, error: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Exact one-sided bounds on binomial probabilities, each of level ``1 - error``.

    Parameters
    ----------
    successes, failures : array-like of int >= 0, same shape
        Counts of each cell.
    error : float in (0, 1)
        Probability that one side fails.

    Returns
    -------
    lower, upper : ndarray of float64
        Bounds on the probability of success; 0 and 1 where there are no trials.

    References
    ----------
    Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the
    case of the binomial", Biometrika 26 (1934).

    Examples
    --------
    >>> from skfairdp.fairness.bounds.binomial_cells import clopper_pearson
    >>> lower, upper = clopper_pearson(0, 10, 0.05)
    >>> float(lower), round(float(upper), 4)
    (0.0, 0.2589)
    """
    hit = np.asarray(successes, dtype=np.float64)
    miss = np.asarray(failures, dtype=np.float64)
    # Parameters of 0 are outside the beta family; the answer there is known.
    lower = np.where(hit > 0, special.betaincinv(np.maximum(hit, 1.0), miss + 1.0, error), 0.0)
    upper = np.where(miss > 0, special.betainccinv(hit + 1.0, np.maximum(miss, 1.0), error), 1.0)
    return lower, upper


def binomial_laws(
    n: int | NDArray[np.int64], p: NDArray[np.float64]
) -> tuple[int, NDArray[np.float64]]:
    """Laws of binomial counts of `n` rows, or of each of (s, 1, 1) numbers of rows, for rates (m,).

    On a window with nearly all of them. Result: the count at which the window starts, and an array
    (m, width) or (s, m, width).
    """
    p = np.minimum(np.maximum(p, 0.0), 1.0)  # a fraction of what np.clip takes
    # Bernstein's inequality.
    mean = n * p
    spread = np.sqrt(2.0 * _TAIL * mean * (1.0 - p)) + _TAIL / 3.0 + 1.0
    first = max(0, math.floor(float((mean - spread).min())))
    last = min(int(np.max(n)), math.ceil(float((mean + spread).max())))
    k = np.arange(first, last + 1)
    inner = _inner(p)
    miss = np.log1p(-inner)
    law: NDArray[np.float64] = np.add((np.log(inner) - miss) * k, n * miss)
    if isinstance(n, int) and n <= _REMEMBERED:
        law += _all_coefficients(n)[first : last + 1]
    else:
        law += _log_coefficients(n, k)
    np.exp(law, out=law)
    return first, law


def _log_coefficients(n: int | NDArray[np.int64], k: NDArray[np.int64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = special.gammaln(n + 1.0) - special.gammaln(k + 1.0)
    found -= special.gammaln(n - k + 1.0)
    return found


@lru_cache(maxsize=16)
def _all_coefficients(n: int) -> NDArray[np.float64]:
    return _log_coefficients(n, np.arange(n + 1))


def _inner(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.minimum(np.maximum(p, _INNER[0]), _INNER[1])[:, np.newaxis]


@dataclass(frozen=True, eq=False)
class BinomialCell:
    """What was observed of one cell: a binomial count, perhaps with noise."""

    value: int  # successes; with noise, twice the successes plus the noise
    trials: int  # rows, at least 1
    noise: NDArray[np.float64] | None = None  # law of the noise on -r, ..., r, symmetric

    def __post_init__(self) -> None:
        impossible = self.noise is None and not 0 <= self.value <= self.trials
        if self.trials < 1 or impossible:
            raise ValueError(f"{self.value} successes of {self.trials} rows are impossible.")

    @property
    def scale(self) -> int:
        """By how much one success moves the observed count."""
        return 1 if self.noise is None else 2

    @property
    def reach(self) -> int:
        """Largest noise."""
        return 0 if self.noise is None else len(self.noise) // 2

    @cached_property
    def noise_variance(self) -> float:
        """Variance that noise adds to the observed rate."""
        if self.noise is None:
            return 0.0
        at = np.arange(-self.reach, self.reach + 1)
        return float(self.noise @ (at / (2.0 * self.trials)) ** 2)

    def limits(self, error: float) -> tuple[float, float]:
        """Limits of the rate that fail with at most `error` together, half of it on either side.

        With noise, half of that is for the noise.
        """
        shift, share = 0, error / 2.0
        if self.noise is not None:
            share = error / 4.0
            shift = self.reach - int(np.searchsorted(np.cumsum(self.noise), share - 1e-10))
        least = min(max(0, (self.value - shift) // self.scale), self.trials)
        most = min(max(0, -((-self.value - shift) // self.scale)), self.trials)
        low, _ = clopper_pearson(least, self.trials - least, share)
        _, high = clopper_pearson(most, self.trials - most, share)
        return float(low), float(high)

    def law(self, p: NDArray[np.float64], slopes: bool) -> tuple[Any, ...]:
        """Laws of the count for rates (m,), as of `binomial_laws`, and derivatives if asked for."""
        first, law = binomial_laws(self.trials, p)
        found = [law]
        if slopes:
            inner = _inner(p)
            slope = np.arange(first, first + law.shape[1]) - self.trials * inner
            slope *= law / (inner * (1.0 - inner))
            found.append(slope)
        if self.noise is None:
            return first, *found
        return 2 * first - self.reach, *map(self._convolved, found)

    def _convolved(self, law: NDArray) -> NDArray:
        assert self.noise is not None
        spaced = np.zeros((len(law), 2 * law.shape[1] - 1))
        spaced[:, ::2] = law
        return signal.oaconvolve(spaced, self.noise[np.newaxis], axes=1)
