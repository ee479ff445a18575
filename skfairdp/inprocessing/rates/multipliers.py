"""How multipliers of rate constraints move, from released gaps alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skfairdp.inprocessing.rates.constraints import Floats

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
