"""Cost of one dp_accounting event, by the accountant that the table names.

Privacy loss distributions come first, with their rounding charged; dp_accounting's Renyi
divergences answer where those refuse. Both take what `skfairdp.privacy.accounting.table` lists,
and nothing else. Here alone, delta is reduced by the probability with which a release is not what
its event says.

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

import importlib.metadata
import logging
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.dp_event import DpEvent
from dp_accounting.rdp import RdpAccountant, compute_epsilon
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS
from numpy.typing import NDArray

from skfairdp.foundation.figures import significant_up
from skfairdp.foundation.parameters import CHANCE, check_values
from skfairdp.privacy.accounting.composition import composed_epsilon
from skfairdp.privacy.accounting.events import (
    canonical,
    parts_of,
    rewritten,
    without_failures,
)
from skfairdp.privacy.accounting.table import entry_of, kind_of, renyi_form
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


# Rounding of a divergence: 128 units in the last place of the first terms of its sum, and a part of
# itself.
_LOST, _RELATIVE = 2.0**-46, 1e-12


def event_epsilon(event: DpEvent, delta: float, adjacency: str = "add-remove") -> float:
    """Upper bound on epsilon of an event at a given delta.

    Under "change-attribute" the event is what one cell releases about a record; the record leaves
    one cell and joins another. Result: in nats; infinity if the event releases something without
    noise. Raises ValueError: also if no accountant takes the event under this relation.
    """
    return _answer(event, delta, adjacency)[0]


def accountant_name(
    event: DpEvent | None = None, delta: float = 1e-6, adjacency: str = "add-remove"
) -> str:
    """Name and version of the accountant that answers for an event.

    Parameters
    ----------
    event : dp_accounting.DpEvent or None, default=None
        The event; None names the default accountant.
    delta : float, default=1e-6
        Probability in [0, 1).
    adjacency : {"add-remove", "zero-out", "replace-one", "change-attribute"}, \
default="add-remove"
        Neighbouring relation.

    Returns
    -------
    str
        For example ``"dp_accounting 0.6.0 RDP"``.
    """
    kind = "PLD" if event is None else _answer(event, delta, adjacency)[1]
    detail = "privacy loss distributions (PLD, connect-the-dots), rounding charged to delta"
    if kind == "RDP":
        detail = f"dp_accounting {importlib.metadata.version('dp_accounting')} RDP"
    failure = 0.0 if event is None else without_failures(canonical(event))[1]
    aside = f"; {significant_up(failure, 2)} of delta set aside for tails"
    return detail + aside if failure else detail


def _answer(event: DpEvent, delta: float, adjacency: str) -> tuple[float, str]:
    check_values(delta=(delta, CHANCE))
    if accounted(adjacency) is None:
        known = sorted(name for name in NEIGHBOURS if accounted(name) is not None)
        raise ValueError(
            f"adjacency={adjacency!r} cannot be accounted for here: use one of {known}"
        )
    found: tuple[float, str] = _remembered(_cost, event, float(delta), adjacency)
    return found


def _remembered(function: Any, event: DpEvent, *settings: Any) -> Any:
    """Call a function that has a cache on an event, with equal parts counted together.

    Each kind of release is then discretised once.
    """
    event = canonical(event)
    try:
        hash(event)
    except TypeError:  # events of other makers may hold lists
        return function.__wrapped__(event, *settings)
    counts: Counter[DpEvent] = Counter()
    for part, count in parts_of(event):
        counts[part] += count
    parts = [dp_event.SelfComposedDpEvent(part, count) for part, count in counts.items()]
    return function(canonical(dp_event.ComposedDpEvent(parts)), *settings)


@lru_cache(maxsize=4096)
def _cost(event: DpEvent, delta: float, adjacency: str) -> tuple[float, str]:
    relation = accounted(adjacency)
    assert relation is not None  # refused before
    if any(isinstance(part, dp_event.NonPrivateDpEvent) for part, _ in parts_of(event)):
        return math.inf, "PLD"
    event, failure = without_failures(event)
    delta -= failure
    if delta < 0.0:
        return math.inf, "PLD"
    cost = loss_epsilon(event, delta, adjacency)
    if cost is not None and math.isfinite(cost):
        return float(cost), "PLD"
    # Refused, or delta does not cover the tails that are cut off.
    charged = renyi_form(both_directions(event, adjacency), relation)
    if charged is not None:
        orders = np.array(DEFAULT_RDP_ORDERS, dtype=np.float64)
        found = compute_epsilon(orders, _renyi(charged, orders, relation), delta)[0]
        return float(found), "RDP"
    if cost is not None:
        return cost, "PLD"
    raise ValueError(
        f"no accountant takes {_refused(event, relation)} under adjacency={adjacency!r}: compose "
        "events of the table in docs/theory/accounting.md, or state another relation"
    )


def _refused(event: DpEvent, relation: NeighboringRelation) -> str:
    """Names of the releases for which the accountants have no common answer."""
    by_losses, by_divergences = [], []
    for part, _ in parts_of(event):
        inside = part.event if isinstance(part, dp_event.RepeatAndSelectDpEvent) else part
        entry, name = (
            entry_of(part, relation),
            " of ".join(part.__name__ for part in kind_of(inside)),
        )
        by_losses += [name] if entry.losses is None else []
        by_divergences += [name] if renyi_form(part, relation) is None else []
    return " with ".join(sorted({*by_losses, *by_divergences}))


def renyi_divergences(
    event: DpEvent, orders: tuple[float, ...], adjacency: str
) -> NDArray[np.float64] | None:
    """Bounds on the Renyi divergence of an event, order by order.

    Result (n_orders,): in nats; None for an event without known divergences.
    """
    found: NDArray[np.float64] | None = _remembered(_divergences, event, orders, adjacency)
    return found


@lru_cache(maxsize=1024)
def _divergences(
    event: DpEvent, orders: tuple[float, ...], adjacency: str
) -> NDArray[np.float64] | None:
    relation = accounted(adjacency)
    assert relation is not None  # refused before
    charged = renyi_form(both_directions(event, adjacency), relation)
    if charged is None:
        return None
    found = _renyi(charged, np.array(orders, dtype=np.float64), relation)
    found.setflags(write=False)
    return found


def _renyi(
    event: DpEvent, orders: NDArray[np.float64], relation: NeighboringRelation
) -> NDArray[np.float64]:
    """Divergences by dp_accounting, and what its sums may have lost by rounding."""
    accountant = RdpAccountant(orders.tolist(), neighboring_relation=relation)
    with _quiet():
        found = np.array(accountant.compose(event).rdp, dtype=np.float64)
    return np.maximum(found, 0.0) * (1.0 + _RELATIVE) + _rounding(event, orders)


def _rounding(event: DpEvent, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound on what rounding takes off the divergences of samples, which are sums of many terms.

    The first term is one less about ``order * rate``, and the second about that much: each is wrong
    by some roundings of that and of its logarithm. A divergence that is smaller is lost in them.
    """
    lost = np.zeros(len(orders))
    for part, count in parts_of(event):
        match part:
            case dp_event.RepeatAndSelectDpEvent(event=inner, shape=shape):
                lost += count * (2.0 + min(shape, 1e3)) * _rounding(inner, orders).max()
            case dp_event.PoissonSampledDpEvent(sampling_probability=rate):
                size = rate * (1.0 - math.log(rate) + np.log(orders))
                lost += count * _LOST * size * orders / (orders - 1.0)
    return lost


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep dp_accounting from logging every fractional order that it leaves out."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
