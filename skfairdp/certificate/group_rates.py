"""Rates of single groups with intervals, beside the bounds on their differences."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skfairdp.certificate.sentence import group_text
from skfairdp.fairness.bounds.binomial_cells import clopper_pearson
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee

LEVEL = 0.95


@dataclass(frozen=True)
class GroupRate:
    """Rate of one cell, with the interval of the true rate where one is known.

    The counts are noisy ones where `noisy`; `stratum` is what the rate is conditioned on, "all"
    for nothing; `rate` is None without rows.
    """

    group: str
    stratum: str
    successes: float
    trials: float
    rate: float | None
    low: float | None
    high: float | None
    noisy: bool


def group_rates(claim: FairnessGuarantee) -> tuple[GroupRate, ...]:
    """Rates behind a claim, with intervals of 95 % each where rows were sampled."""
    sampled = claim.confidence_level is not None
    return tuple(_rate(count, sampled=sampled) for count in claim.counts)


def _rate(count: CellCount, *, sampled: bool) -> GroupRate:
    k, n = count.successes, count.trials
    rate = min(max(k / n, 0.0), 1.0) if n > 0 else None
    low, high = (count.low, count.high) if sampled else (None, None)
    if sampled and not count.noisy and rate is not None:
        if isinstance(k, int):
            lower, upper = clopper_pearson(k, n - k, (1.0 - LEVEL) / 2.0)
            low, high = float(lower), float(upper)
        else:  # means of probabilities: Hoeffding
            half = math.sqrt(math.log(2.0 / (1.0 - LEVEL)) / (2.0 * n))
            low, high = max(rate - half, 0.0), min(rate + half, 1.0)
    name = group_text(count.group)
    return GroupRate(name, count.stratum or "all", k, n, rate, low, high, count.noisy)
