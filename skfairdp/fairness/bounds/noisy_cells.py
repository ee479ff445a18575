"""Cells whose counts carry noise: p-values of single rates, and two cells combined.

The derivation is in docs/theory/certificate.md, "Private counts".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import signal, special, stats

from skfairdp.fairness.bounds.binomial_cells import Floats, Ints, binomial_means
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
