"""Losses of an event in both directions between two neighbouring data sets.

Adding, removing or blanking a record is one direction of every release: the record leaves
all of them or joins all of them, and the costlier counts. A changed attribute leaves one cell and
joins another, each with its own noise: both directions at once, on different coordinates, so
that their losses add up (``docs/theory/attribute_privacy.md``). That is wrong for a release that
forms a signed sum over cells before the noise: it replaces a record.

Losses are rounded up to a grid. dp_accounting's fixed interval of 1e-4 overstates epsilon by a
fifth where a single step loses less than that, and fills the memory where a step loses
thousands; every interval gives an upper bound.
"""

from __future__ import annotations

import math

from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent

from skfairdp.privacy.accounting.composition import composed_epsilon
from skfairdp.privacy.accounting.events import parts_of, rewritten
from skfairdp.privacy.accounting.table import entry_of
from skfairdp.privacy.relations import NEIGHBOURS, accounted

# Of delta, what the tails of all releases together may take; no tail is smaller than this.
TAILS, SMALLEST = 1e-6, 1e-290
# dp_accounting's own interval, never exceeded unless the range of losses is huge.
COARSEST = 1e-4
# Below this the library's differences of hockey-stick curves lose their digits.
FINEST = 1e-6
# Rounding up to a grid of interval h adds at most h**2 / 6 to the variance of a
# step's loss, so this share of the standard deviation costs epsilon about 0.1 %.
SHARE_OF_DEVIATION = 0.11
# Largest arrays of a single step and of the composition (float64 numbers).
STEP_POINTS = 60_000
# Widest interval whose exponential is a float; beyond it, epsilon is in the millions.
WIDEST = 500.0
TOTAL_POINTS = 500_000


def loss_epsilon(event: DpEvent, delta: float, adjacency: str) -> float | None:
    """Epsilon by privacy loss distributions, None where they have no answer.

    It is infinite where delta does not cover the tails that are cut off.
    """
    relation = accounted(adjacency)
    assert relation is not None  # refused before
    parts = [(part, count, entry_of(part, relation).losses) for part, count in _gathered(event)]
    if any(makes is None for *_, makes in parts):
        return None
    interval = grid_interval(both_directions(event, adjacency))
    tail = max(TAILS * delta / max(sum(count for _, count, _ in parts), 1), SMALLEST)
    while interval <= WIDEST:
        known = [(makes(part, interval, tail), count) for part, count, makes in parts if makes]
        if not known:
            return 0.0
        leaving, joining = ([(pair[way], count) for pair, count in known] for way in (0, 1))
        alike = all(pair[0] is pair[1] for pair, _ in known)
        both = [leaving] if alike else [leaving, joining]
        chains = [leaving + joining] if NEIGHBOURS[adjacency].two_cells else both
        costs = [composed_epsilon(chain, interval, delta) for chain in chains]
        found = [cost for cost in costs if cost is not None]
        if len(found) == len(costs):
            return max(found)
        interval *= 2.0
    return None


def both_directions(event: DpEvent, adjacency: str) -> DpEvent:
    """Release all twice where a record changes cells: no cheaper, by Renyi divergences, than both.

    A Renyi divergence of a product is the sum of the two directions', and each is at most the
    larger of the two, which is what an accountant charges under adding or removing a record.
    """
    if not NEIGHBOURS[adjacency].two_cells:
        return event
    return rewritten(event, lambda part: dp_event.SelfComposedDpEvent(part, 2))


def _gathered(event: DpEvent) -> list[tuple[DpEvent, int]]:
    """Parts with how often each occurs; Gaussian queries on all rows are one query."""
    precision, others = 0.0, []
    for part, count in parts_of(event):
        match part:
            case dp_event.NoOpDpEvent():
                continue
            case dp_event.GaussianDpEvent(noise_multiplier=sigma):
                precision += count / sigma**2
            case _:
                others.append((part, count))
    if precision > 0.0:
        others.append((dp_event.GaussianDpEvent(precision**-0.5), 1))
    return others


def grid_interval(event: DpEvent) -> float:
    """Grid interval that is fine enough for the answer and small enough for memory."""
    losses = [_loss(part, count) for part, count in parts_of(event)]
    total = sum(count for count, *_ in losses)
    variance = sum(count * of_one for count, of_one, _, _ in losses)
    mean = sum(count * of_one for count, _, of_one, _ in losses)
    largest = max((size for *_, size in losses), default=0.0)
    wanted = SHARE_OF_DEVIATION * math.sqrt(variance / total) if total else COARSEST
    fine = min(COARSEST, max(FINEST, wanted))
    spread = mean + 10.0 * math.sqrt(2.0 * mean) + largest
    return max(fine, largest / STEP_POINTS, spread / TOTAL_POINTS)


def _loss(event: DpEvent, count: int) -> tuple[int, float, float, float]:
    """How often an event loses privacy, and roughly the variance, mean and largest loss of one."""
    match event:
        case dp_event.GaussianDpEvent(noise_multiplier=sigma):
            # The library composes equal Gaussian queries in closed form.
            sigma /= math.sqrt(count)
            return 1, sigma**-2, sigma**-2 / 2, (1 + 20 * sigma) / (2 * sigma**2)
        case dp_event.PoissonSampledDpEvent(
            sampling_probability=rate, event=dp_event.GaussianDpEvent(noise_multiplier=sigma)
        ):
            chi_square = rate**2 * math.expm1(min(sigma**-2, 600.0))
            mean = min(rate / (2 * sigma**2), math.log1p(chi_square))
            shift = (1 + 20 * sigma) / (2 * sigma**2)
            largest = shift if shift > 600.0 else math.log1p(rate * math.expm1(shift))
            return count, chi_square, mean, largest
        case dp_event.DiscreteLaplaceDpEvent(noise_parameter=scale, sensitivity=sensitivity):
            size = scale * sensitivity
        case dp_event.LaplaceDpEvent(noise_multiplier=scale):
            size = 1.0 / scale
        case _:
            return count, 1.0, 0.0, 0.0
    return count, size**2, min(size, size**2), size
