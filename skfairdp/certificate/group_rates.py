"""Rates of single groups with intervals, and ratios of rates."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from skfairdp.fairness.bounds.binomial_cells import clopper_pearson
from skfairdp.fairness.derivation import Derivation, recomputed_intervals
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee, group_text
from skfairdp.fairness.kinds import NOISY_COUNTS
from skfairdp.fairness.scopes import DEPLOYED
from skfairdp.foundation.figures import rounded_down, rounded_up

LEVEL = 0.95
ANY = "any"


@dataclass(frozen=True)
class GroupRate:
    """Rate of one cell, None without rows, with the interval of the true rate where known."""

    group: str
    stratum: str  # what the rate is conditioned on; "all" for nothing
    successes: float
    trials: float
    rate: float | None
    low: float | None
    high: float | None
    noisy: bool


@dataclass(frozen=True)
class ImpactRatio:
    """Selection rate of a group over the highest one; intervals of a comparison hold together."""

    group: str
    stratum: str
    ratio: float | None
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of JSON types, with the figures as they are printed."""
        ratio = None if self.ratio is None else round(self.ratio, 3)
        ends = {"low": float(rounded_down(self.low)), "high": float(rounded_up(self.high))}
        return vars(self) | {"ratio": ratio} | ends


def group_rates(claim: FairnessGuarantee) -> tuple[GroupRate, ...]:
    """Rates behind a claim, with intervals of 95 % each where rows were sampled."""
    return tuple(_rate(count, sampled=claim.confidence_level is not None) for count in claim.counts)


@lru_cache(maxsize=32)
def impact_ratios(claim: FairnessGuarantee) -> tuple[ImpactRatio, ...]:
    """Ratios of selection rates: of all groups, and of each column's values; else empty."""
    if (claim.notion, claim.scope) != ("demographic_parity", DEPLOYED):
        return ()
    found: list[ImpactRatio] = []
    for compared in (claim, *_merged(claim)):
        for stratum in dict.fromkeys(count.stratum for count in compared.counts):
            found += _ratios(compared, stratum) if len(compared.groups) > 1 else ()
    return tuple(found)


def _merged(claim: FairnessGuarantee) -> Iterator[FairnessGuarantee]:
    """The claim's counts by each column by itself, where groups are intersections."""
    groups = [group for group in claim.groups if isinstance(group, tuple)]
    known = {count.group for count in claim.counts} <= set(groups)
    if not known or len(groups) < len(claim.groups) or len(set(map(len, groups))) != 1:
        return
    strata = dict.fromkeys(count.stratum for count in claim.counts)
    for column in range(len(groups[0])):
        of: dict[Hashable, tuple[Hashable, ...]] = {
            group: tuple(value if i == column else ANY for i, value in enumerate(group))
            for group in groups
        }
        labels, merged, sizes = tuple(dict.fromkeys(of.values())), [], set()
        for stratum, label in product(strata, labels):
            cell = [c for c in claim.counts if (c.stratum, of[c.group]) == (stratum, label)]
            hits, rows = sum(c.successes for c in cell), sum(c.trials for c in cell)
            merged.append(CellCount(label, stratum, hits, rows, any(c.noisy for c in cell)))
            sizes.add(len(cell))
        how = claim.derivation
        if how is not None and how.kind == NOISY_COUNTS:
            if len(sizes) > 1:
                continue  # sums of unlike numbers of noisy counts
            terms = np.array(how.values["terms"]) * sizes.pop()
            how = Derivation.of(NOISY_COUNTS, **(how.values | {"terms": terms}))
        if len(labels) > 1:
            yield replace(claim, groups=labels, counts=tuple(merged), derivation=how, estimate=None)


def _ratios(claim: FairnessGuarantee, stratum: str) -> Iterator[ImpactRatio]:
    counts = [count for count in claim.counts if count.stratum == stratum]
    ends = _together(claim, counts, stratum)
    shares = [_rate(count, sampled=False).rate for count in counts]
    for count, ratio in zip(counts, over_highest(shares, ends), strict=True):
        yield ImpactRatio(group_text(count.group), stratum or "all", *ratio)


def over_highest(
    shares: Sequence[float | None], ends: Sequence[tuple[float, float]]
) -> list[tuple[float | None, float, float]]:
    """Ratio of each rate to the highest one, with its interval; `ends` of rates hold together."""
    highest = max((share for share in shares if share is not None), default=0.0)
    found = []
    for i, (share, (low, high)) in enumerate(zip(shares, ends, strict=True)):
        others = [*ends[:i], *ends[i + 1 :]]
        # The highest true rate is that of the group itself, or lies between these.
        most, least = max(end for _, end in others), max(start for start, _ in others)
        ratio = None if share is None or highest <= 0.0 else share / highest
        lowest = min(1.0, low / most) if most > 0.0 else 1.0
        found.append((ratio, lowest, min(1.0, high / least) if least > 0.0 else 1.0))
    return found


def _together(
    claim: FairnessGuarantee, counts: list[CellCount], stratum: str
) -> list[tuple[float, float]]:
    """Intervals of rates that hold together, with 95 %; all of [0, 1] where nothing is known."""
    error = (1.0 - LEVEL) / len(counts)
    if not any(count.noisy for count in counts):
        hits, rows = np.array([(count.successes, count.trials) for count in counts]).T
        low, high = clopper_pearson(hits, rows - hits, error / 2.0)
        return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]
    try:
        with np.errstate(invalid="raise"):
            found = recomputed_intervals(claim, 1.0 - error)
    except (ValueError, ArithmeticError):  # Counts that contradict each other: see `examine`
        found = None
    if found is None:
        return [(0.0, 1.0)] * len(counts)
    pairs = zip(claim.counts, zip(*found, strict=True), strict=True)
    return [(float(a), float(b)) for count, (a, b) in pairs if count.stratum == stratum]


def _rate(count: CellCount, *, sampled: bool) -> GroupRate:
    k, n, rate = count.successes, count.trials, count.rate
    low, high = (count.low, count.high) if sampled else (None, None)
    if sampled and not count.noisy and rate is not None:
        if isinstance(k, int):
            low, high = map(float, clopper_pearson(k, n - k, (1.0 - LEVEL) / 2.0))
        else:  # means of probabilities: Hoeffding
            half = math.sqrt(math.log(2.0 / (1.0 - LEVEL)) / (2.0 * n))
            low, high = max(rate - half, 0.0), min(rate + half, 1.0)
    name = group_text(count.group)
    return GroupRate(name, count.stratum or "all", k, n, rate, low, high, count.noisy)
