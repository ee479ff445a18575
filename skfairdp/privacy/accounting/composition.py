"""Epsilon of many releases together, with the round-off of the Fourier transform charged.

A fast Fourier transform is wrong by about the same amount everywhere, so it hides whatever
mass is smaller than that: at a delta of 1e-12 the tail that delta asks for. Here every
distribution is first weighted by ``exp(tilt * loss)``, and a bound on the error is added to every
mass before the weights are taken off again; see "How ε is computed" in ``docs/theory/privacy.md``.

The bound. Each output of a transform of n = 2**k points is a sum of its inputs, each of
which passed through k products with a number of modulus 1 and k sums: it is wrong by at most
``ERROR * k * ROUNDING`` times the sum of the inputs' moduli, to first order (Higham, "Accuracy
and Stability of Numerical Algorithms", 2002, sections 3.1, 3.6 and 24.1, bounds one product,
one sum and their chain by less than 8). A power by repeated squaring of a number that is
wrong by at most e is wrong by at most ``(modulus + e)**count - modulus**count`` and
``4 * count`` roundings; the errors of all frequencies, divided by n, and that of the
transform back bound the error of every mass.

Masses beyond the n points wrap around and are added to others, which overstates delta. Only
what should lie above them is missed: by Chernoff's bound its probability is added to delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.signal import lfilter

from skfairdp.privacy.accounting.loss_distributions import ROUNDING, Losses

Array = NDArray[np.float64]

# Roundings of one level of a transform; see above.
ERROR = 16.0
# Roundings of one complex product, of a product with a real weight, of an exponential.
PRODUCT = 4.0
# Half the width of the points, in tilted standard deviations; and of delta, what may be missed.
REACH, MISSED = 8.0, 1e-6
LARGEST = 2**23


def composed_epsilon(
    parts: Sequence[tuple[Losses, int]], interval: float, delta: float
) -> float | None:
    """Upper bound on epsilon of independent releases between the same two data sets.

    `parts`: each with how often it occurs, on one grid. Result: infinity where delta does not cover
    the infinite losses; None where the grid is too fine for memory.
    """
    certain = sum(count * math.log1p(-part.infinity) for part, count in parts)
    left = delta + math.expm1(certain) * (1.0 + 1e-9)
    blur = sum(part.blur * count for part, count in parts)
    terms = [_Term(part, count, interval) for part, count in parts]
    largest = interval * sum(term.highest for term in terms) + blur if certain == 0.0 else math.inf
    if left <= 0.0:
        return largest
    tilt = _tilt(terms, left)
    weighted = [term.tilted(tilt) for term in terms]
    total = sum(term.count * moment for term, (_, moment) in zip(terms, weighted, strict=True))
    points = _points(terms, [weights for weights, _ in weighted], interval, tilt, left)
    if points is None:
        return None
    first, size, missed = points
    tilted = _convolved(terms, [weights for weights, _ in weighted], first, size)
    losses = np.asarray(interval * np.arange(first, first + size), dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        masses = tilted * np.exp(total - tilt * losses)
    # Exponents, products and sums from here on, and weights of every factor.
    steepest = max(tilt * float(np.abs(term.losses).max()) for term in terms)
    count = sum(term.count for term in terms)
    masses *= 1.0 + ERROR * ROUNDING * ((count + 1) * (100.0 + steepest) + abs(total) + size)
    found = _invert(masses, losses, interval, left - missed)
    return min(found + blur, largest) if found > 0.0 else 0.0


class _Term:
    """One release, repeated: its masses in logarithms."""

    def __init__(self, part: Losses, count: int, interval: float) -> None:
        self.count = count
        self.lowest = part.lower * count
        self.highest = (part.lower + len(part.masses) - 1) * count
        self.position = part.lower + np.arange(len(part.masses))
        self.losses = interval * self.position
        with np.errstate(divide="ignore"):
            self.logs = np.log(part.masses)

    def log_moment(self, tilt: float) -> float:
        """Logarithm of the mean of exp(tilt * loss)."""
        exponents = self.logs + tilt * self.losses
        largest = float(exponents.max())
        return largest + math.log(float(np.exp(exponents - largest).sum()))

    def tilted(self, tilt: float) -> tuple[Array, float]:
        """Masses times exp(tilt * loss), and the logarithm that they were divided by."""
        moment = self.log_moment(tilt)
        return np.exp(self.logs + tilt * self.losses - moment), moment


def _tilt(terms: Sequence[_Term], delta: float) -> float:
    """Tilt with the smallest Chernoff bound on epsilon; any other would be valid too."""

    def bound(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        total = sum(term.count * term.log_moment(tilt) for term in terms)
        return (total - math.log(delta)) / tilt

    widest = max(float(np.ptp(term.losses)) / len(term.losses) for term in terms)
    ends = (math.log(1e-6), math.log(1.0 / widest))
    return math.exp(
        minimize_scalar(bound, bounds=ends, method="bounded", options={"xatol": 0.02}).x
    )


def _points(
    terms: Sequence[_Term], weighted: Sequence[Array], interval: float, tilt: float, delta: float
) -> tuple[int, int, float] | None:
    """First position and number of points, and the probability of losses above them."""
    mean = variance = 0.0
    for term, weights in zip(terms, weighted, strict=True):
        of_one = float(weights @ term.losses)
        mean += term.count * of_one
        variance += term.count * float(weights @ (term.losses - of_one) ** 2)
    reach = REACH * math.sqrt(variance)
    lowest, highest = sum(term.lowest for term in terms), sum(term.highest for term in terms)
    first = max(lowest, math.floor((mean - reach - 5.0 / tilt) / interval))
    # What wraps around from below meets delta with its weight of exp(-tilt * size * interval).
    wide = max(mean + reach - first * interval, (30.0 - math.log(delta)) / tilt) / interval
    size = 2 ** math.ceil(math.log2(max(min(wide, highest - first + 1.0), 2.0)))
    deviation = math.sqrt(variance) or 1.0 / tilt
    steeper = [tilt + share * REACH / deviation for share in (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)]
    moments = [sum(term.count * term.log_moment(t) for term in terms) for t in steeper]
    while size <= LARGEST:
        last = first + size
        chernoff = min(m - t * last * interval for m, t in zip(moments, steeper, strict=True))
        missed = 0.0 if last > highest else 2.0 * math.exp(min(chernoff, 0.0))
        if missed <= MISSED * delta:
            return first, size, missed
        size *= 2
    return None


def _convolved(terms: Sequence[_Term], weighted: Sequence[Array], first: int, size: int) -> Array:
    """Upper bounds on the masses of the composition, wrapped around `size` points."""
    level = ERROR * ROUNDING * math.log2(size)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    grown, lost, products = np.zeros(len(product)), np.zeros(len(product)), 1
    for term, weights in zip(terms, weighted, strict=True):
        folded = np.bincount(term.position % size, weights, size)
        transform = np.fft.rfft(folded)
        modulus, wrong = np.abs(transform), level * float(folded.sum())
        with np.errstate(divide="ignore"):
            grown += term.count * np.log(modulus + wrong)
            lost += term.count * np.log1p(wrong / modulus)
        product *= _power(transform, term.count)
        products += term.count
    grown = np.exp(grown)
    errors = grown * (PRODUCT * ROUNDING * products + level - np.expm1(-lost))
    masses = np.roll(np.fft.irfft(product, size), -(first % size))
    # Every frequency but the first and the last stands for two.
    return masses.clip(min=0.0) + 2.0 * float(errors.sum()) / size


def _power(base: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Power by repeated squaring, whose rounding is known."""
    result = np.ones_like(base)
    while True:
        if count & 1:
            result *= base
        count >>= 1
        if not count:
            return result
        base = base * base


def _invert(masses: Array, losses: Array, interval: float, delta: float) -> float:
    """Smallest epsilon >= 0 with sum of mass * (1 - exp(epsilon - loss))_+ <= delta."""
    above = np.append(masses[::-1].cumsum()[::-1][1:], 0.0)
    # delta at one loss is exp(-interval) times that at the next, and the new terms.
    fade = math.exp(-interval)
    spent = lfilter([-math.expm1(-interval)], [1.0, -fade], above[::-1])[::-1]
    enough = np.flatnonzero((spent <= delta) & (losses >= 0.0))
    k = int(enough[0])
    if k == 0 or losses[k] <= 0.0:
        return max(float(losses[k]), 0.0)
    # Between the two grid points delta is a sum of at-or-above k minus exp(epsilon) * rest.
    rest = above[k - 1] - spent[k]
    inside = math.log((above[k - 1] - delta) / rest) if rest > 0.0 else 0.0
    return float(losses[k]) + min(max(inside, -interval), 0.0)
