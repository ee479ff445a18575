"""Bounds on differences of rates from counts that were released with noise.

One table of counts is released, with independent discrete Laplace noise ``Pr(z) ~ exp(-epsilon
|z|)`` on every entry; the counts of a cell sum some entries. Two p-values of single rates are
combined into one of their difference. See docs/theory/certificate.md, "Private counts".
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import signal, special, stats

from skfairdp.fairness.bounds.binomial_cells import BinomialCell, Floats, Ints, binomial_means
from skfairdp.fairness.bounds.rate_gaps import gap_estimate, largest_gap_bound
from skfairdp.foundation.parameters import COUNT, Number, check_values

OUTSIDE_SHARE = 0.02  # of the error, for rates that one cell excludes by itself
_NODES, _BLOCK = 512, 16  # rates that are looked at, and how many are first looked at together
_ROUNDING = 1e-10  # of a probability from a convolved law
_PARTS = 16  # to which the rate is rounded that a statistic is made for
_TOGETHER = 64  # numbers of rows whose laws are computed at once
_LARGEST = 1.0 - 1e-12  # largest p-value that is distinguished from 1


@dataclass(frozen=True, eq=False)
class CellPValues:
    """P-values of all rates of one cell, from its noisy counts.

    `below` bounds the probability, at a rate and up to the next one, of counts that look at least
    as small, for whatever number of rows from `least` to `most`, and falls; `above` bounds that of
    counts as large, down to the rate before, and rises.
    """

    rates: Floats  # from 0 to 1
    below: Floats
    above: Floats
    least: int
    most: int
    noise: float  # about its variance, in units of a success

    def limits(self, error: float) -> tuple[float, float]:
        """Limits of the rate; each fails with at most `error`."""
        if self.most == 0:
            return 0.0, 1.0
        high = np.append(self.rates[self.below <= error], 1.0)[0]
        return float(np.append(0.0, self.rates[self.above <= error])[-1]), float(high)

    def variances(self, first: NDArray, last: NDArray) -> tuple[NDArray, NDArray]:
        """Least and largest variance of the observed rate, for rates from `first` to `last`."""
        ends = first * (1.0 - first), last * (1.0 - last)
        top = np.where((first < 0.5) & (last > 0.5), 0.25, np.maximum(*ends))
        most, least = max(self.most, 1), max(self.least, 1)
        return np.minimum(*ends) / most + self.noise / most**2, top / least + self.noise / least**2


@lru_cache(maxsize=256)  # who verifies a claim asks what its maker asked
def cell_p_values(
    hit: int, miss: int, least: int, most: int, terms: tuple[int, int], epsilon: float, public: bool
) -> CellPValues:
    """P-values from (whole - part) successes - part failures, which has nearly mean 0 for any size.

    The part is about the rate that is tested; of a known number of rows one half, for then both
    counts measure the same.
    """
    n = max((least + most) / 2.0, 1.0)
    middle = (1.0 + (hit - miss) / n) / 2.0 if public else hit / n
    middle = min(max(middle, 0.0), 1.0)
    reach = max(noise_tail(m, epsilon, 1e-6) for m in terms) + (most - least) / _PARTS + 15.0
    width = 5.0 * math.sqrt(middle * (1.0 - middle) / n) + reach / n
    low, high = (math.asin(math.sqrt(min(max(middle + w, 0.0), 1.0))) for w in (-width, width))
    rates = np.concatenate([[0.0], np.sin(np.linspace(low, high, _NODES)) ** 2, [1.0]])
    whole, parts = 2, np.ones(len(rates), dtype=np.int64)
    if not public:
        # Where the part changes there is a node with either, so that no interval has two.
        whole, steps = _PARTS, np.arange(_PARTS)
        parts = np.concatenate([np.floor(whole * rates + 0.5), steps, steps + 1]).astype(np.int64)
        rates = np.concatenate([rates, *[(steps + 0.5) / whole] * 2])
        order = np.lexsort((parts, rates))
        rates, parts = rates[order], parts[order]
    below, above = np.zeros((2, len(rates)))
    # A size stands for those that differ from it by `near`, and move the statistic by no more.
    near = int(max(0.1 / epsilon, math.sqrt(n) / 250.0)) if most > least else 0
    sizes = np.minimum(np.arange(least + near, most + near + 1, 2 * near + 1), most)
    # Sizes near each other have about the same window.
    together = max(1, min(int(4.0 * math.sqrt(max(most, 1)) / (2 * near + 1)), _TOGETHER))
    for part in np.unique(parts).tolist():
        cdf = np.minimum(np.cumsum(_weighted_noise((whole - part, part), terms, epsilon)), 1.0)
        observed, shift = (whole - part) * hit - part * miss, near * max(part, whole - part)
        chosen = np.flatnonzero(parts == part)
        for some in np.array_split(sizes, -(-len(sizes) // together)):
            chances = partial(_chances, cdf, observed + part * some[:, np.newaxis], whole, shift)
            found = binomial_means(some, rates[chosen], chances).max(axis=1)
            below[chosen], above[chosen] = np.maximum((below[chosen], above[chosen]), found)
    below = np.maximum.accumulate(below[::-1])[::-1] + _ROUNDING
    noise = sum(terms) * noise_variance(epsilon) / (4.0 if public else 3.0)
    above = np.maximum.accumulate(above) + _ROUNDING
    # Else the weight of a rate of 0 would be 0.
    return CellPValues(rates, below, above, least, most, noise + 1e-6)


def _chances(cdf: Floats, centre: Ints, whole: int, shift: int, k: NDArray) -> Floats:
    """Chance of noise that makes `k` successes look as small as what was seen, or as large."""
    apart = centre - whole * k
    place = np.stack([apart, -apart]) + (shift + len(cdf) // 2)
    return np.where(place < 0, 0.0, cdf[np.minimum(np.maximum(place, 0), len(cdf) - 1)])


def combined_gap(u: CellPValues, v: CellPValues, error: float, known: float) -> float:
    """Largest difference of rates that the two cells do not exclude, if it is above `known`.

    Rates (p, q) are excluded where a mean of normal quantiles of both p-values, weighted by the
    standard deviations of the observed rates, is below that of the error. A p-value falls with
    its rate, so on a rectangle of rates the quantiles are largest at one corner.
    """
    outside = OUTSIDE_SHARE * error
    level = float(special.ndtri(error - 2.0 * outside))
    x, y = (
        np.where(p <= outside, -np.inf, special.ndtri(np.minimum(p, _LARGEST)))
        for p in (u.below, v.above)
    )
    last = len(u.rates) - 1
    i: Ints
    j: Ints
    i, j = (part.ravel() * _BLOCK for part in np.indices((-(-last // _BLOCK),) * 2))
    for width in (_BLOCK, 1):
        if width == 1:  # all rectangles within those that are left
            i, j = (
                np.add.outer(part, within.ravel()).ravel()
                for part, within in zip((i, j), np.indices((_BLOCK, _BLOCK)), strict=True)
            )
            i, j = i[(i < last) & (j < last)], j[(i < last) & (j < last)]
        top = np.minimum(i + width, last)
        wide = u.rates[top] - v.rates[j] > known
        i, j, top = i[wide], j[wide], top[wide]
        end = np.minimum(j + width, last)
        least, most = u.variances(u.rates[i], u.rates[top])
        low, high = v.variances(v.rates[j], v.rates[end])
        kept = _largest_mean(x[i], y[end], (low / most, high / least)) >= level
        i, j = i[kept], j[kept]
    return float((u.rates[i + 1] - v.rates[j]).max(initial=known))


def _largest_mean(x: NDArray, y: NDArray, ratios: tuple[NDArray, NDArray]) -> NDArray:
    """Largest x cos t + y sin t where the square of tan t lies between two ratios."""
    ends = [(x + y * np.sqrt(r)) / np.sqrt(1.0 + r) for r in ratios]
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = (x > 0) & (y > 0) & ((y / x) ** 2 >= ratios[0]) & ((y / x) ** 2 <= ratios[1])
    return np.where(inside, np.hypot(x, y), np.maximum(*ends))


def noise_tail(terms: int, epsilon: float, error: float) -> int:
    """Smallest integer t with ``Pr(Z > t) <= error``, Z a sum of discrete Laplace variables."""
    law = noise_law(terms, epsilon)
    # Survival by symmetry, Pr(Z > t) = Pr(Z < -t), which keeps relative accuracy.
    survival = np.append(np.cumsum(law)[: len(law) // 2][::-1], 0.0)
    return int(np.argmax(survival <= error - min(1e-10, error / 100)))


@lru_cache(maxsize=64)
def noise_law(terms: int, epsilon: float) -> Floats:
    """Law of a sum of `terms` variables ``Pr(z) ~ exp(-epsilon |z|)``, on -r, ..., r."""
    # The sum is a difference of two independent negative binomial variables.
    # A smaller epsilon leaves nothing but noise.
    check_values(terms=(terms, COUNT), epsilon=(epsilon, Number(1e-4)))
    p = -math.expm1(-epsilon)
    reach = int(stats.nbinom.isf(1e-15, terms, p)) + 1
    pmf = stats.nbinom.pmf(np.arange(reach + 1), terms, p)
    return np.maximum(signal.correlate(pmf, pmf, mode="full", method="auto"), 0.0)


@lru_cache(maxsize=64)
def _weighted_noise(weights: tuple[int, int], terms: tuple[int, int], epsilon: float) -> Floats:
    """Law of a sum of noises of two counts times whole numbers, on -r, ..., r."""
    found = np.ones(1)
    for weight, m in zip(weights, terms, strict=True):
        if weight:
            law = noise_law(m, epsilon)
            spaced = np.zeros(weight * (len(law) - 1) + 1)
            spaced[::weight] = law
            found = signal.oaconvolve(found, spaced)
    return np.maximum(found, 0.0)


def noise_variance(epsilon: float) -> float:
    """Variance of one discrete Laplace variable, of ``Pr(z) ~ exp(-epsilon |z|)``."""
    return 2.0 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2


# Part of the error probability, fixed before any data is seen, for the numbers of rows where these
# are private.
SIZES_SHARE = 0.02
LONGEST_LAW = 2_000  # longer laws of noise take too much time to convolve

_Table = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class NoisyCells:
    """Noisy success and failure counts of the cells of one notion.

    Parameters
    ----------
    successes, failures : ndarray of int64, shape (n_strata, n_groups)
        Noisy counts; they can be negative.
    success_terms, failure_terms : ndarray of int64, shape (n_strata,)
        Number of noisy table entries that each count is a sum of.
    trials : ndarray of int64 or None, shape (n_strata, n_groups)
        The true numbers of rows, where they are public; None where they are private.
    """

    successes: NDArray[np.int64]
    failures: NDArray[np.int64]
    success_terms: NDArray[np.int64]
    failure_terms: NDArray[np.int64]
    trials: NDArray[np.int64] | None = None


def private_gap_upper_bound(
    cells: NoisyCells, epsilon: float, *, confidence_level: float = 0.95
) -> float:
    """Upper confidence bound on the largest difference of rates, from noisy counts.

    The error probability covers the sampling of rows and the noise together;
    docs/theory/certificate.md derives the bound.

    Parameters
    ----------
    cells : NoisyCells
        The noisy counts.
    epsilon : float > 0
        Privacy cost of the table, which fixes the scale of the noise.
    confidence_level : float in (0, 1), default=0.95
        Probability that the bound holds.

    Returns
    -------
    float
        The bound, at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.fairness.bounds.noisy_counts import NoisyCells, private_gap_upper_bound
    >>> one = np.array([1])
    >>> cells = NoisyCells(np.array([[300, 250]]), np.array([[700, 750]]), one, one)
    >>> round(private_gap_upper_bound(cells, 1.0), 3)
    0.086
    """
    rows = None if cells.trials is None else _frozen(cells.trials)
    terms = tuple(cells.success_terms.tolist()), tuple(cells.failure_terms.tolist())
    counts = _frozen(cells.successes), _frozen(cells.failures)
    return _bound_of(*counts, *terms, rows, epsilon, confidence_level)


def _frozen(table: NDArray[np.int64]) -> _Table:
    return tuple(map(tuple, table.tolist()))


@lru_cache(maxsize=4096)  # who verifies or prints a claim asks what its maker asked
def _bound_of(
    hits: _Table,
    misses: _Table,
    hit_terms: tuple[int, ...],
    miss_terms: tuple[int, ...],
    rows: _Table | None,
    epsilon: float,
    confidence_level: float,
) -> float:
    counts = np.array(hits), np.array(misses)
    terms = np.array(hit_terms), np.array(miss_terms)
    cells = NoisyCells(*counts, *terms, None if rows is None else np.array(rows))
    if cells.trials is not None:
        if np.any(cells.trials == 0):
            return 1.0
        laws = [noise_law(int(m), epsilon) for m in cells.success_terms + cells.failure_terms]
        # The choice depends on what is known without the counts.
        if max(map(len, laws)) <= LONGEST_LAW:
            contrasts = cells.successes - cells.failures + cells.trials
            strata = [
                [BinomialCell(int(k), int(n), law) for k, n in zip(*stratum, strict=True)]
                for *stratum, law in zip(contrasts, cells.trials, laws, strict=True)
            ]
            return largest_gap_bound(strata, 1.0 - confidence_level)
    error = (1.0 - confidence_level) * (1.0 - (SIZES_SHARE if cells.trials is None else 0.0))
    table, gap = _cells(cells, epsilon, 1.0 - confidence_level), 0.0
    for u, v in itertools.chain.from_iterable(itertools.permutations(row, 2) for row in table):
        gap = combined_gap(u, v, error, gap)
    return gap


def private_rate_intervals(
    cells: NoisyCells, epsilon: float, *, confidence_level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Interval of the rate of each cell by itself; each end fails with half of the error."""
    alpha = 1.0 - confidence_level
    share = SIZES_SHARE if cells.trials is None else 0.0
    table = _cells(cells, epsilon, alpha)
    ends = np.array([[cell.limits(alpha * (1.0 - share) / 2) for cell in row] for row in table])
    return ends[..., 0], ends[..., 1]


def private_gap_lower_bound(cells: NoisyCells, epsilon: float, *, confidence_level: float) -> float:
    """Lower confidence bound on the largest difference of rates, from noisy counts.

    Which pair of cells differs most is read off the counts here, so the bounds of all
    cells must hold together, and the error is shared by their number. Sizes are private.
    """
    # Each of the bounds of a pair fails with at most half of its error; there are two a cell.
    alpha = (1.0 - confidence_level) / cells.successes.size
    lower, upper = private_rate_intervals(cells, epsilon, confidence_level=1.0 - alpha)
    apart = lower[..., :, np.newaxis] - upper[..., np.newaxis, :]
    return max(0.0, float(apart.max()))


def _cells(cells: NoisyCells, epsilon: float, alpha: float) -> list[list[CellPValues]]:
    """P-values of all cells; private sizes fail with at most a share of `alpha`."""
    found, public = [], cells.trials is not None
    terms = cells.success_terms.tolist(), cells.failure_terms.tolist()
    for s, both in enumerate(zip(*terms, strict=True)):
        hits, misses = cells.successes[s], cells.failures[s]
        rows = hits + misses if cells.trials is None else cells.trials[s]
        # The sizes of the two cells of the worst pair must be right, each on two sides.
        reach = 0 if public else noise_tail(sum(both), epsilon, alpha * SIZES_SHARE / 4)
        counts = np.stack([hits, misses, *np.maximum([rows - reach, rows + reach], 0)], axis=1)
        found.append([cell_p_values(*cell, both, epsilon, public) for cell in counts.tolist()])
    return found


def noisy_gap_estimate(cells: NoisyCells) -> float | None:
    """Largest difference of noisy rates between two groups within a stratum; see `gap_estimate`."""
    rows = cells.successes + cells.failures if cells.trials is None else cells.trials
    # Where the rows are known, both noisy counts measure the same number.
    hit: NDArray = (rows + cells.successes - cells.failures) / 2.0
    rows = np.maximum(rows, 0)
    return gap_estimate(np.clip(hit, 0, rows), rows)
