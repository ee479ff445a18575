"""Randomised response on a value with K possibilities, exact in integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skfairdp.foundation.parameters import PRICE, Number, check_arguments

# Probabilities are multiples of one over this; a power of two, so that the generator's
# bits are used as they come.
_RESOLUTION = 2**62


class Integers(Protocol):
    """Protocol of a source of randomness for randomised answers; a NoiseSource is one."""

    def integers(self, high: int, size: int) -> NDArray[np.int64]:
        """Draw `size` uniform integers in ``0 .. high-1``."""


@dataclass(frozen=True)
class RandomizedResponse:
    """Report the true one of K values with a certain probability, else another one.

    Every value is randomised by itself, so the reports may be collected by a party that
    is not trusted: for any two true values, no report is more than ``exp(epsilon)``
    times as likely under one as under the other (pure local differential privacy).

    Notes
    -----
    The report is the truth with probability ``pi = e^eps / (e^eps + K - 1)`` and each
    other value with ``(1 - pi) / (K - 1)`` (Kairouz, Bonawitz and Ramage, "Discrete
    Distribution Estimation under Local Privacy", 2016; for K = 2 Warner, 1965). The second
    is rounded up to a multiple of 2**-62 in decimal arithmetic, and drawn exactly, so the ratio of
    `keep_probability` and `change_probability` is at most ``e^eps``.

    Examples
    --------
    >>> from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse
    >>> response = RandomizedResponse(epsilon=1.0, n_values=2)
    >>> round(response.keep_probability, 4), response.spent <= 1.0
    (0.7311, True)
    >>> response.invert(response.matrix @ [0.25, 0.75]).round(9).tolist()
    [0.25, 0.75]
    """

    epsilon: float  # Privacy cost of one report in nats, > 0; infinity reports the truth
    n_values: int  # K, the number of possible values, >= 2

    def __post_init__(self) -> None:
        check_arguments(vars(self), epsilon=PRICE, n_values=Number(2, integer=True))

    @cached_property
    def _change(self) -> int:
        """Probability of each false value, in units of 1 / _RESOLUTION."""
        if math.isinf(self.epsilon):
            return 0
        digits = Context(prec=60)
        # Correctly rounded to 60 digits, so the next number below is no more than e^eps.
        odds = digits.next_minus(digits.exp(digits.create_decimal(min(self.epsilon, 1e3))))
        total = digits.next_minus(digits.add(odds, self.n_values - 1))
        upwards = Context(prec=60, rounding=ROUND_CEILING)
        share = upwards.divide(upwards.create_decimal(_RESOLUTION), total)
        return int(share.to_integral_value(rounding=ROUND_CEILING))

    @property
    def _keep(self) -> int:
        return _RESOLUTION - (self.n_values - 1) * self._change

    @property
    def keep_probability(self) -> float:
        """Probability of the truth."""
        return self._keep / _RESOLUTION

    @property
    def change_probability(self) -> float:
        """Probability of each other value."""
        return self._change / _RESOLUTION

    @property
    def attenuation(self) -> float:
        """Factor in (0, 1] by which a difference between true values shrinks: keep less change."""
        return (self._keep - self._change) / _RESOLUTION

    @property
    def spent(self) -> float:
        """Exact cost of one report in nats, rounded up; at most `epsilon`."""
        if self._change == 0:
            return math.inf
        # Two ulps cover the errors of division and logarithm near or above one ulp of 1.
        cost = math.log(self._keep / self._change)
        return min(float(self.epsilon), cost + 4 * math.ulp(max(cost, 1.0)))

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Probability of each report (row) given each true value (column), shape (K, K)."""
        matrix = np.full((self.n_values, self.n_values), self.change_probability)
        np.fill_diagonal(matrix, self.keep_probability)
        return matrix

    def report(self, codes: NDArray[np.int64], noise: Integers) -> NDArray[np.int64]:
        """Randomise values, each by itself.

        A negative code, for none of the K values, is answered by one of them at random with equal
        chance, so not even this shows.
        """
        unlisted = noise.integers(self.n_values, len(codes))
        drawn = noise.integers(_RESOLUTION, len(codes))
        change = self._change
        # The lowest (K - 1) * change integers are cut into K - 1 equal parts, one for
        # each other value.
        shift = np.where(drawn < (self.n_values - 1) * change, 1 + drawn // max(change, 1), 0)
        return np.where(codes < 0, unlisted, (codes + shift) % self.n_values)

    def invert(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimate a table over true values from the same table over reports.

        `table` (..., K): counts or probabilities by report in the last axis. Result: (..., K):
        unbiased, with the same sums over the last axis; entries can be negative.
        """
        table = np.asarray(table, dtype=np.float64)
        spread = self.change_probability * table.sum(axis=-1, keepdims=True)
        return np.asarray((table - spread) / self.attenuation)
