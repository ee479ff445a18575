"""Binomial counts, plain or with noise: their laws, and limits for one rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import signal, special

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# A window of a law leaves out a probability of exp(-_TAIL) on either side.
_TAIL = 36.0
_REMEMBERED = 50_000  # rows up to which the coefficients of a law are kept for the next one
_POWERS = 300.0  # largest power of e that laws of rates near each other differ by in a window
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
    lower, upper : ndarray of float64 of the shape of the counts
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


def binomial_laws(n: int, p: Floats) -> tuple[int, Floats]:
    """Laws of binomial counts of `n` rows for rates (m,): the first count, and laws (m, width)."""
    k = _window(n, p)
    inner = _inner(p)
    miss = np.log1p(-inner)
    law: Floats = np.add((np.log(inner) - miss) * k, n * miss)
    if n <= _REMEMBERED:
        law += _all_coefficients(n)[k[0] : k[-1] + 1]
    else:
        law += _log_coefficients(n, k)
    np.exp(law, out=law)
    return int(k[0]), law


def binomial_means(n: Ints, p: Floats, of: Callable[[Ints], NDArray]) -> Floats:
    """Means of functions of binomial counts: of each number of rows (s,), and each rate (m,).

    `p` rises. `of` gives values (..., s, width) for counts (width,). A law is that of a rate near
    by, times a power of the count, so that sums over counts are a product of two matrices. Result:
    an array (..., s, m).
    """
    k, inner = _window(n, p), _inner(p)
    miss = np.log1p(-inner)
    odds = np.log(inner) - miss
    if len(p) > 1 and len(k) * float(odds[-1, 0] - odds[0, 0]) > _POWERS:
        # Cut where one rate is far from the others, or else into halves.
        apart = np.diff(odds[:, 0])
        wide = int(apart.argmax()) + 1
        cut = wide if 2.0 * apart[wide - 1] > apart.sum() else len(p) // 2
        return np.concatenate([binomial_means(n, part, of) for part in (p[:cut], p[cut:])], axis=-1)
    here, centre, rows = len(p) // 2, k[len(k) // 2], n[:, np.newaxis]
    law = np.exp(_log_coefficients(rows, k) + k * odds[here] + rows * miss[here])
    odds, miss = odds - odds[here], miss - miss[here]
    found: Floats = (of(k) * law) @ np.exp(odds * (k - centre)).T
    found *= np.exp(rows * miss.T + centre * odds.T)
    return found


def _window(n: int | Ints, p: Floats) -> Ints:
    """Counts that are nearly all of the laws of numbers of rows and rates."""
    lowest, highest = max(float(p.min()), 0.0), min(float(p.max()), 1.0)
    fewest, most = (int(n.min()), int(n.max())) if isinstance(n, np.ndarray) else (n, n)

    def limit(n: int, side: float) -> float:
        """Bernstein's inequality, at the rate that is worst; between two n it is no worse, or 0."""
        p = min(max(0.5 + side / 2.0 * math.sqrt(n / (n + 2.0 * _TAIL)), lowest), highest)
        return n * p + side * (math.sqrt(2.0 * _TAIL * n * p * (1.0 - p)) + _TAIL / 3.0 + 1.0)

    first = max(0, math.floor(min(limit(fewest, -1.0), limit(most, -1.0))))
    return np.arange(first, min(most, math.ceil(limit(most, 1.0))) + 1)


def _log_coefficients(n: int | Ints, k: Ints) -> Floats:
    most = int(np.max(n))
    if most > _REMEMBERED:
        far: Floats = special.gammaln(n + 1.0) - special.gammaln(k + 1.0)
        return far - special.gammaln(n - k + 1.0)  # infinite for more successes than rows
    table, misses = _log_factorials(1 << most.bit_length()), n - k
    found: Floats = table[n] - table[k] - table[np.maximum(misses, 0)]
    found[misses < 0] = -math.inf
    return found


@lru_cache(maxsize=16)
def _log_factorials(size: int) -> Floats:
    return special.gammaln(np.arange(1.0, size + 1.0))


@lru_cache(maxsize=16)
def _all_coefficients(n: int) -> Floats:
    return _log_coefficients(n, np.arange(n + 1))


def _inner(p: Floats) -> Floats:
    return np.minimum(np.maximum(p, _INNER[0]), _INNER[1])[:, np.newaxis]


@dataclass(frozen=True, eq=False)
class BinomialCell:
    """Observation of one cell: a binomial count, perhaps with noise."""

    value: int  # successes; with noise, twice the successes plus the noise
    trials: int  # rows, at least 1
    noise: Floats | None = None  # law of the noise on -r, ..., r, symmetric

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
        """Limits of the rate, each failing with half of `error`; half of that is for noise."""
        shift, share = 0, error / 2.0
        if self.noise is not None:
            share = error / 4.0
            shift = self.reach - int(np.searchsorted(np.cumsum(self.noise), share - 1e-10))
        least = min(max(0, (self.value - shift) // self.scale), self.trials)
        most = min(max(0, -((-self.value - shift) // self.scale)), self.trials)
        low, _ = clopper_pearson(least, self.trials - least, share)
        _, high = clopper_pearson(most, self.trials - most, share)
        return float(low), float(high)

    def law(self, p: Floats, slopes: bool) -> tuple[Any, ...]:
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
