"""How multipliers of rate constraints move, from released gaps alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from skfairdp.inprocessing.rates.constraints import TINY, Floats, RateConstraints

_SMALLEST_SCALE = 1e-3  # gaps below a tenth of a percent do not speed the multipliers up


class DualAscent:
    """Multipliers of two-sided constraints, by ascent on an augmented Lagrangian.

    Every constraint ``|gap| <= tolerance`` has a multiplier for each side, which grows
    with the violation and falls with the slack, within [0, limit]. The multiplier in
    force adds `penalty` times the present violation, which damps the swings.
    """

    def __init__(self, tolerances: Floats, *, rate: float, penalty: float, limit: float) -> None:
        self._tolerances = tolerances
        self._rate = rate
        self._penalty = penalty
        self._limit = limit
        self._sides = np.zeros((2, len(tolerances)))

    def update(self, gaps: Floats, noise_std: Floats) -> Floats:
        """Take one step and return the signed multipliers in force.

        `gaps`: signed, released. `noise_std`: of the privacy noise in each of them.
        """
        return self._step(gaps, self._tolerances, self._rate)

    def _step(self, gaps: Floats, tolerances: Floats, rate: float) -> Floats:
        excess = np.array((gaps, -gaps))
        excess -= tolerances
        self._sides = self._limited(self._sides + rate * excess)
        upper, lower = self._limited(self._sides + self._penalty * excess)
        return np.asarray(upper - lower)

    def _limited(self, values: Floats) -> Floats:
        return np.minimum(np.maximum(values, 0.0), self._limit)


class ScaledAscent(DualAscent):
    """Dual ascent whose steps do not depend on how large gaps and noise happen to be.

    A violation is divided by the largest of: the root mean square of the gap so far, its
    tolerance, and three standard deviations of its privacy noise. Steps shrink with the learning
    rate. See "Multipliers" in ``docs/theory/rate_constrained.md``.

    `rate`: most that a multiplier moves in a step, in units of the loss, and `penalty`: what it
    adds to the one in force, for a violation as large as its scale. `factors`: on `rate`, by step.
    """

    def __init__(
        self,
        tolerances: Floats,
        *,
        rate: float,
        penalty: float,
        limit: float,
        factors: Sequence[float] | Floats,
    ) -> None:
        super().__init__(tolerances, rate=rate, penalty=penalty, limit=limit)
        self._factors = factors
        self._least = np.maximum(tolerances, _SMALLEST_SCALE)
        self._count = 0
        self._mean_square = np.zeros(len(tolerances))

    def update(self, gaps: Floats, noise_std: Floats) -> Floats:
        """Take one step, see `DualAscent.update`."""
        rate = self._rate * self._factors[self._count]
        self._count += 1
        self._mean_square += (gaps**2 - self._mean_square) / self._count
        scale = np.maximum(np.sqrt(self._mean_square), np.maximum(3.0 * noise_std, self._least))
        return self._step(gaps / scale, self._tolerances / scale, rate)


class Lagrangian:
    """What is known of the constraints while a model is trained, all of it released.

    Masses are means over all steps; rates follow, with a memory, what the predictions of a step
    say beyond the rate that was believed, ``(successes - rate * mass) / mean mass``. A cell may be
    empty, and whether it is is private: where a mass is below three standard deviations of its
    noise, its rate is taken to be unknown, the gap to be 0, and the mass to be at that floor. See
    "Multipliers" in ``docs/theory/rate_constrained.md``.

    `memory`: weight in [0, 1) of the past in the rates. `noise_std`: on an entry of one released
    histogram. `coefficients`: see `RateConstraints.coefficients_of`.
    """

    def __init__(
        self, constraints: RateConstraints, dual: DualAscent, *, memory: float, noise_std: float
    ) -> None:
        self.constraints = constraints
        self.masses = constraints.masses(np.zeros(constraints.shape))
        self.rates = np.zeros_like(self.masses)
        self.gaps = np.zeros(len(constraints))
        self.multipliers = np.zeros(len(constraints))
        self.coefficients = np.zeros(constraints.shape)
        self._dual = dual
        self._memory = memory
        self._noise_std = noise_std
        self._entries = constraints.shape[1] * constraints.shape[2]  # of one group
        self._count = 0

    def observe(self, histogram: Floats) -> None:
        """Take in a released histogram, in shares of a batch."""
        constraints = self.constraints
        masses = constraints.masses(histogram)
        self._count += 1
        self.masses += (masses - self.masses) / self._count
        floor = 3.0 * self._noise_std * math.sqrt(self._entries / self._count)
        known = np.maximum(self.masses, max(floor, TINY))
        step = max(1.0 - self._memory, 1.0 / self._count)
        surprise = (constraints.successes(histogram) - self.rates * masses) / known
        self.rates = np.minimum(np.maximum(self.rates + step * surprise, 0.0), 1.0)
        self.gaps = constraints.gaps_of(self.rates, self.masses, floor=floor)
        of_rates = self._noise_std * math.sqrt(step / (2.0 - step)) / known
        self.multipliers = self._dual.update(self.gaps, constraints.spread_of(of_rates))
        self.coefficients = constraints.coefficients_of(self.masses, self.multipliers, floor=floor)
