"""The cost of one dp_accounting event: which accountant answers, and how finely.

A thin layer over ``dp_accounting``: the losses are computed there. What is added
here keeps its answers true and tight:

* events are put into one canonical form first, because an integer noise multiplier
  inside a composed, sampled event makes the library report a fraction of the cost;
* the grid on which privacy losses are rounded up follows the loss of one step. The
  library's fixed grid of 1e-4 overstates epsilon by a fifth where a single step
  loses less than that.
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from dp_accounting import NeighboringRelation
from dp_accounting import dp_event as events
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from skfairdp.privacy.guarantee import ADJACENCIES

__all__ = ["accountant_name", "canonical", "event_epsilon"]

RELATIONS = {
    "add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "zero-out": NeighboringRelation.REPLACE_SPECIAL,
    "replace-one": NeighboringRelation.REPLACE_ONE,
}
# dp_accounting's own interval, never exceeded unless the range of losses is huge.
COARSEST = 1e-4
# Below this the library's differences of hockey-stick curves lose their digits.
FINEST = 1e-6
# Rounding up to a grid of interval h adds at most h**2 / 6 to the variance of a
# step's loss, so this share of the standard deviation costs epsilon about 0.1 %.
SHARE_OF_DEVIATION = 0.11
# Largest arrays of a single step and of the composition (float64 numbers).
STEP_POINTS = 60_000
TOTAL_POINTS = 500_000


@dataclass(frozen=True)
class _Loss:
    """Rough size of the privacy loss of an event repeated `count` times."""

    count: int
    variance: float
    mean: float
    largest: float


def canonical(event: events.DpEvent) -> events.DpEvent:
    """Rewrite an event so that every accountant reads it alike.

    Multipliers become Python floats, lists become tuples, Gaussian queries that share
    a Poisson batch become one query, and queries without cost or without noise are
    named as such.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        Any event; kinds that this package does not make are left as they are.

    Returns
    -------
    dp_accounting.DpEvent
        An equivalent event.

    Raises
    ------
    ValueError
        If a multiplier is negative or not a number, or a sampling probability is
        outside [0, 1].

    Examples
    --------
    >>> from dp_accounting import dp_event
    >>> from skfairdp.privacy.accountants import canonical
    >>> pair = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(1)] * 2)
    >>> canonical(dp_event.PoissonSampledDpEvent(0.01, pair)).event.noise_multiplier ** -2
    2.0000000000000004
    """
    match event:
        case events.GaussianDpEvent(noise_multiplier=sigma):
            return _noisy(_multiplier(sigma), events.GaussianDpEvent)
        case events.LaplaceDpEvent(noise_multiplier=scale):
            return _noisy(_multiplier(scale), events.LaplaceDpEvent)
        case events.DiscreteLaplaceDpEvent(noise_parameter=rate, sensitivity=sensitivity):
            rate = _multiplier(rate)
            if rate == 0.0 or sensitivity == 0:
                return events.NoOpDpEvent()
            if math.isinf(rate):
                return events.NonPrivateDpEvent()
            return events.DiscreteLaplaceDpEvent(rate, int(sensitivity))
        case events.SelfComposedDpEvent(event=inner, count=count):
            inner = canonical(inner)
            if count == 0 or isinstance(inner, events.NoOpDpEvent):
                return events.NoOpDpEvent()
            return inner if count == 1 else events.SelfComposedDpEvent(inner, int(count))
        case events.ComposedDpEvent(events=parts):
            kept = tuple(
                part for part in map(canonical, parts) if not isinstance(part, events.NoOpDpEvent)
            )
            if not kept:
                return events.NoOpDpEvent()
            return kept[0] if len(kept) == 1 else events.ComposedDpEvent(kept)
        case events.PoissonSampledDpEvent(sampling_probability=rate, event=inner):
            return _sampled(float(rate), canonical(inner))
        case _:
            return event


def event_epsilon(event: events.DpEvent, delta: float, adjacency: str = "add-remove") -> float:
    """Upper bound on epsilon of an event at a given delta.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        What was released.
    delta : float
        Probability in [0, 1).
    adjacency : {"add-remove", "zero-out", "replace-one"}, default="add-remove"
        Neighbouring relation of the statement.

    Returns
    -------
    float
        Epsilon in nats; infinity if the event releases something without noise.

    Raises
    ------
    ValueError
        If `delta` or `adjacency` is not one of the allowed values, or if no accountant
        of dp_accounting takes the event under this relation.

    Examples
    --------
    >>> from dp_accounting import dp_event
    >>> from skfairdp.privacy.accountants import event_epsilon
    >>> step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.1))
    >>> round(event_epsilon(dp_event.SelfComposedDpEvent(step, 1000), 1e-5), 4)
    1.5154
    """
    return _answer(event, delta, adjacency)[0]


def accountant_name(
    event: events.DpEvent | None = None, delta: float = 1e-6, adjacency: str = "add-remove"
) -> str:
    """Name and version of the accountant that answers for an event.

    Parameters
    ----------
    event : dp_accounting.DpEvent or None, default=None
        The event; None names the default accountant.
    delta : float, default=1e-6
        Probability in [0, 1).
    adjacency : {"add-remove", "zero-out", "replace-one"}, default="add-remove"
        Neighbouring relation.

    Returns
    -------
    str
        For example ``"dp_accounting 0.6.0 PLD (connect-the-dots)"``.
    """
    kind = "PLD" if event is None else _answer(event, delta, adjacency)[1]
    detail = {"PLD": "PLD (connect-the-dots)", "RDP": "RDP"}[kind]
    return f"dp_accounting {importlib.metadata.version('dp_accounting')} {detail}"


def _answer(event: events.DpEvent, delta: float, adjacency: str) -> tuple[float, str]:
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta={delta!r} is not allowed: give a probability in [0, 1)")
    if adjacency not in RELATIONS:
        known = sorted(ADJACENCIES)
        raise ValueError(
            f"adjacency={adjacency!r} cannot be accounted for here: use one of "
            f"{sorted(RELATIONS)} (guarantees may be stated for {known})"
        )
    event = canonical(event)
    try:
        hash(event)
    except TypeError:  # events of other makers may hold lists
        return _cost.__wrapped__(event, float(delta), adjacency)
    return _cost(event, float(delta), adjacency)


@lru_cache(maxsize=1024)
def _cost(event: events.DpEvent, delta: float, adjacency: str) -> tuple[float, str]:
    relation = RELATIONS[adjacency]
    if any(isinstance(part, events.NonPrivateDpEvent) for part, _ in _parts(event, 1)):
        return math.inf, "PLD"
    cost = math.inf
    if PLDAccountant(relation).supports(event):
        cost = _pld_epsilon(event, delta, adjacency)
        if math.isfinite(cost):
            return cost, "PLD"
    # Refused, or delta is below the mass that the library cuts off the tails.
    rdp = RdpAccountant(neighboring_relation=relation)
    if rdp.supports(event):
        return float(rdp.compose(event).get_epsilon(delta)), "RDP"
    if math.isinf(cost) and PLDAccountant(relation).supports(event):
        return cost, "PLD"
    raise ValueError(
        f"no accountant of dp_accounting takes {type(event).__name__} under "
        f"adjacency={adjacency!r}: compose supported events, or state another relation"
    )


def _pld_epsilon(event: events.DpEvent, delta: float, adjacency: str) -> float:
    accountant = PLDAccountant(RELATIONS[adjacency], _interval(event))
    return float(accountant.compose(event).get_epsilon(delta))


def _multiplier(value: float) -> float:
    number = float(value)
    if not number >= 0.0:
        raise ValueError(f"a noise multiplier of {value!r} is not allowed: give a number >= 0")
    return number


def _noisy(multiplier: float, kind: type[events.DpEvent]) -> events.DpEvent:
    if multiplier == 0.0:
        return events.NonPrivateDpEvent()
    if math.isinf(multiplier):
        return events.NoOpDpEvent()
    return kind(multiplier)


def _sampled(rate: float, inner: events.DpEvent) -> events.DpEvent:
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"a sampling probability of {rate!r} is not allowed: give one in [0, 1]")
    if rate == 0.0 or isinstance(inner, events.NoOpDpEvent):
        return events.NoOpDpEvent()
    if rate == 1.0 or isinstance(inner, events.NonPrivateDpEvent):
        return inner
    parts = list(_parts(inner, 1))
    if all(isinstance(part, events.GaussianDpEvent) for part, _ in parts):
        precision = sum(count * part.noise_multiplier**-2 for part, count in parts)
        inner = events.GaussianDpEvent(precision**-0.5)
    return events.PoissonSampledDpEvent(rate, inner)


def _parts(event: events.DpEvent, count: int) -> Iterator[tuple[events.DpEvent, int]]:
    """Composed parts of an event with how often each occurs."""
    if isinstance(event, events.SelfComposedDpEvent):
        yield from _parts(event.event, count * event.count)
    elif isinstance(event, events.ComposedDpEvent):
        for part in event.events:
            yield from _parts(part, count)
    else:
        yield event, count


def _interval(event: events.DpEvent) -> float:
    """Grid interval that is fine enough for the answer and small enough for memory."""
    losses = [_loss(part, count) for part, count in _parts(event, 1)]
    total = sum(loss.count for loss in losses)
    variance = sum(loss.count * loss.variance for loss in losses)
    mean = sum(loss.count * loss.mean for loss in losses)
    largest = max((loss.largest for loss in losses), default=0.0)
    wanted = SHARE_OF_DEVIATION * math.sqrt(variance / total) if total else COARSEST
    fine = min(COARSEST, max(FINEST, wanted))
    spread = mean + 10.0 * math.sqrt(2.0 * mean) + largest
    return max(fine, largest / STEP_POINTS, spread / TOTAL_POINTS)


def _loss(event: events.DpEvent, count: int) -> _Loss:
    match event:
        case events.GaussianDpEvent(noise_multiplier=sigma):
            # The library composes equal Gaussian queries in closed form.
            sigma /= math.sqrt(count)
            return _Loss(1, sigma**-2, sigma**-2 / 2, (1 + 20 * sigma) / (2 * sigma**2))
        case events.PoissonSampledDpEvent(
            sampling_probability=rate, event=events.GaussianDpEvent(noise_multiplier=sigma)
        ):
            chi_square = rate**2 * math.expm1(min(sigma**-2, 600.0))
            mean = min(rate / (2 * sigma**2), math.log1p(chi_square))
            shift = (1 + 20 * sigma) / (2 * sigma**2)
            largest = shift if shift > 600.0 else math.log1p(rate * math.expm1(shift))
            return _Loss(count, chi_square, mean, largest)
        case events.DiscreteLaplaceDpEvent(noise_parameter=scale, sensitivity=sensitivity):
            size = scale * sensitivity
        case events.LaplaceDpEvent(noise_multiplier=scale):
            size = 1.0 / scale
        case _:
            return _Loss(count, 1.0, 0.0, 0.0)
    return _Loss(count, size**2, min(size, size**2), size)
