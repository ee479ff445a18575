"""Chance that held-out rows will show a tolerance, from public numbers of rows alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtr, ndtri

from skfairdp.fairness.bounds.noisy_cells import noise_variance
from skfairdp.fairness.smallest_gap import certifiable

USUAL = 0.9  # chance with which a run is planned to show its tolerance


@dataclass(frozen=True)
class Showing:
    """Distance of a bound from the true gap, by numbers of rows and a rate.

    `margin`: of the bound above the observed gap. `deviation`: standard deviation of the observed
    gap of the two smallest groups around the true one. `others`: groups that each may differ most
    from one of them.
    """

    tolerance: float
    margin: float
    deviation: float
    others: int = 1

    def chance(self, gap: float, spread: float = 0.0) -> float:
        """Probability that the bound is at most the tolerance, by the normal approximation.

        `gap`: the expected one. `spread`: standard deviation of the true gap around it.
        """
        room = self.tolerance - self.margin - gap
        missed = float(ndtr(-room / math.hypot(self.deviation, spread)))
        return max(0.0, 1.0 - self.others * missed)

    def largest_gap(self, chance: float = USUAL, spread: float = 0.0) -> float:
        """Largest expected gap at which the tolerance is shown with a probability.

        Negative where no gap is small enough.
        """
        reach = self.quantile(chance) * math.hypot(self.deviation, spread)
        return self.tolerance - self.margin - reach

    @property
    def smallest(self) -> float:
        """Smallest tolerance that is shown with the usual probability at a true gap of zero."""
        return self.margin + self.quantile() * self.deviation

    def quantile(self, chance: float = USUAL) -> float:
        """Standard deviations to spare, so that all groups together keep within a chance."""
        return float(ndtri(1.0 - (1.0 - chance) / self.others))


def showing(
    group_sizes: Mapping[str, int],
    tolerance: float,
    *,
    rate: float = 0.5,
    confidence_level: float = 0.95,
    n_claims: int = 1,
    count_epsilon: float | None = None,
) -> Showing:
    """Plan a certificate; arguments as of `certifiable`."""
    asked: dict[str, Any] = {"confidence_level": confidence_level, "n_claims": n_claims}
    found = certifiable(group_sizes, rate=rate, count_epsilon=count_epsilon, **asked)
    smallest = sorted(max(size, 1) for size in group_sizes.values())[:2]
    noise = 0.0 if count_epsilon is None else noise_variance(count_epsilon)
    deviation = math.sqrt(sum(rate_variance(rate, size, noise) for size in smallest))
    return Showing(tolerance, found.smallest, deviation, len(group_sizes) - 1)


def rate_variance(rate: float, size: float, noise: float = 0.0) -> float:
    """Variance of an observed rate: of who was drawn, and of `noise` in each of its two counts."""
    of_noise = noise * (rate**2 + (1.0 - rate) ** 2) / size**2
    return rate * (1.0 - rate) / size + of_noise
