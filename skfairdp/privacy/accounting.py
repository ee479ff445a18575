"""What a plan costs: its events, its epsilon, and the guarantee that follows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence

from dp_accounting import dp_event as events_of
from dp_accounting.dp_event import DpEvent

from skfairdp.privacy.accountants import accountant_name, canonical, event_epsilon
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.plan import Plan, Segment

__all__ = [
    "accountant_name",
    "compose",
    "covering_event",
    "epsilon",
    "epsilons",
    "events",
    "guarantee",
    "undominated_cells",
]


def events(plan: Plan) -> tuple[DpEvent, ...]:
    """Events that a record of each cell takes part in.

    Parameters
    ----------
    plan : Plan
        What is released.

    Returns
    -------
    tuple of dp_accounting.DpEvent
        One composed event per cell, in the order of ``plan.cells``.

    Examples
    --------
    >>> from skfairdp.privacy import Block, Plan, Segment, events
    >>> block = Block("gradient", max_norm=1.0, weights=(0.01,), noise_std=0.011)
    >>> plan = Plan(("all",), (Segment(1000, (0.01,), (100.0,), (block,)),))
    >>> events(plan)[0].count
    1000
    """
    return tuple(
        _composed(
            plan,
            [(segment.rates[cell], segment.multiplier(cell)) for segment in plan.segments],
        )
        for cell in range(len(plan.cells))
    )


def covering_event(plan: Plan) -> DpEvent:
    """One event that covers a record of any cell.

    A higher rate and a smaller multiplier can only cost more, so each segment is
    charged with the highest rate and the smallest multiplier of all cells it touches.

    Parameters
    ----------
    plan : Plan
        What is released.

    Returns
    -------
    dp_accounting.DpEvent
        Costs at least as much as the event of every cell, at every delta and in every
        composition; the event of the most expensive cell does not always.
    """
    return _composed(plan, [_worst_case(segment, len(plan.cells)) for segment in plan.segments])


def undominated_cells(plan: Plan) -> tuple[int, ...]:
    """Positions of the cells that may be the most expensive one.

    Parameters
    ----------
    plan : Plan
        What is released.

    Returns
    -------
    tuple of int
        Cells of which no other cell has, in every segment, at least the rate and at
        most the multiplier; of equal cells the first.
    """
    profiles = [
        tuple(
            figure
            for segment in plan.segments
            for figure in (segment.rates[cell], -segment.multiplier(cell))
        )
        for cell in range(len(plan.cells))
    ]

    def covers(a: int, b: int) -> bool:
        at_least = all(x >= y for x, y in zip(profiles[a], profiles[b], strict=True))
        return at_least and (profiles[a] != profiles[b] or a < b)

    cells = range(len(plan.cells))
    return tuple(b for b in cells if not any(covers(a, b) for a in cells if a != b))


def epsilon(
    event_or_plan: DpEvent | Plan, delta: float | None = None, adjacency: str | None = None
) -> float:
    """Upper bound on the epsilon of an event, or of a plan's most expensive cell.

    Parameters
    ----------
    event_or_plan : dp_accounting.DpEvent or Plan
        What is released.
    delta : float or None, default=None
        Probability in [0, 1). None takes the plan's; an event needs one.
    adjacency : {"add-remove", "zero-out", "replace-one"} or None, default=None
        Neighbouring relation. None takes the plan's, or "add-remove" for an event.

    Returns
    -------
    float
        Epsilon in nats, computed from privacy loss distributions where dp_accounting
        has them and from Renyi divergences elsewhere; infinity without noise.

    Raises
    ------
    ValueError
        If `delta` or `adjacency` is missing or not one of the allowed values.

    Examples
    --------
    >>> from skfairdp.privacy import Block, Plan, Segment, epsilon
    >>> block = Block("gradient", max_norm=1.0, weights=(0.01,), noise_std=0.011)
    >>> plan = Plan(("all",), (Segment(1000, (0.01,), (100.0,), (block,)),), delta=1e-5)
    >>> round(epsilon(plan), 4)
    1.5154
    """
    if isinstance(event_or_plan, Plan):
        return max(epsilons(event_or_plan, delta, adjacency).values())
    if delta is None:
        raise ValueError("delta=None is not allowed for an event: give a probability in [0, 1)")
    return event_epsilon(event_or_plan, delta, adjacency or "add-remove")


def epsilons(
    plan: Plan, delta: float | None = None, adjacency: str | None = None
) -> dict[Hashable, float]:
    """Upper bound on epsilon for a record of each cell.

    Parameters
    ----------
    plan : Plan
        What is released.
    delta : float or None, default=None
        Probability in [0, 1). None takes the plan's.
    adjacency : {"add-remove", "zero-out", "replace-one"} or None, default=None
        Neighbouring relation. None takes the plan's.

    Returns
    -------
    dict
        Cell label to epsilon in nats.
    """
    delta = plan.delta if delta is None else delta
    adjacency = adjacency or plan.adjacency
    # The plan was computed from the answer to what `prior_epsilon` paid for. Basic
    # composition holds for whatever plan that led to; composing loss distributions
    # would need one that dominates all of them.
    return {
        cell: plan.prior_epsilon + event_epsilon(event, delta, adjacency)
        for cell, event in zip(plan.cells, events(plan), strict=True)
    }


def guarantee(
    plan: Plan, *, protects: str = "record", assumptions: Iterable[str] = ()
) -> PrivacyGuarantee:
    """State what a plan promises.

    Parameters
    ----------
    plan : Plan
        What is released.
    protects : str, default="record"
        What is protected.
    assumptions : iterable of str, default=()
        Conditions of the statement.

    Returns
    -------
    PrivacyGuarantee
        For the plan's delta and adjacency; void for a plan without noise.

    Examples
    --------
    >>> from skfairdp.privacy import Block, Plan, Segment
    >>> from skfairdp.privacy.accounting import guarantee
    >>> block = Block("gradient", max_norm=1.0, weights=(0.01,), noise_std=0.011)
    >>> plan = Plan(("all",), (Segment(1000, (0.01,), (100.0,), (block,)),), delta=1e-5)
    >>> guarantee(plan).satisfies(epsilon=1.6)
    True
    """
    costs = epsilons(plan)
    largest = max(costs.values())
    if math.isinf(largest):
        assumptions = ("the plan releases sums or counts without noise", *assumptions)
    event = covering_event(plan)
    if plan.prior_epsilon > 0.0:
        assumptions = (
            f"epsilon includes {plan.prior_epsilon:g} for the noisy sizes that the plan was made "
            "from, added by basic composition",
            *assumptions,
        )
    return PrivacyGuarantee(
        epsilon=largest,
        delta=plan.delta,
        adjacency=plan.adjacency,
        protects=protects,
        accountant=accountant_name(event, plan.delta, plan.adjacency),
        per_group=costs if len(plan.cells) > 1 else None,
        # No single event covers a plan that was chosen after a private answer.
        event=None if plan.prior_epsilon > 0.0 else event,
        assumptions=tuple(assumptions),
    )


def compose(
    guarantees: Sequence[PrivacyGuarantee], *, delta: float | None = None
) -> PrivacyGuarantee:
    """State what several releases about the same records promise together.

    Parameters
    ----------
    guarantees : sequence of PrivacyGuarantee
        At least one; all for the same adjacency and the same protected thing.
    delta : float or None, default=None
        Delta of the joint statement, in [0, 1). None takes the largest one given.

    Returns
    -------
    PrivacyGuarantee
        Computed from the composition of the events, never from a sum of epsilons.
        Void if one of them is.

    Raises
    ------
    ValueError
        If there is none, or if they speak of different relations: such statements
        stand side by side and have no total.

    Examples
    --------
    >>> from dp_accounting import dp_event
    >>> from skfairdp.privacy import PrivacyGuarantee, compose
    >>> one = PrivacyGuarantee(5.0, 1e-5, "zero-out", event=dp_event.GaussianDpEvent(1.0))
    >>> round(compose([one, one]).epsilon, 2)
    6.84
    """
    if not guarantees:
        raise ValueError("guarantees is empty: give at least one guarantee to compose")
    delta = max(item.delta for item in guarantees) if delta is None else delta
    assumptions = tuple(dict.fromkeys(text for item in guarantees for text in item.assumptions))
    relations = {(item.adjacency, item.protects) for item in guarantees if not item.is_void}
    if len(relations) > 1:
        raise ValueError(
            f"guarantees speak of different relations, {sorted(relations)}: they have no "
            "total; compose those of one relation and state the others beside them"
        )
    void = next((item for item in guarantees if item.is_void), None)
    adjacency, protects = (
        next(iter(relations)) if relations else (guarantees[0].adjacency, guarantees[0].protects)
    )
    if void is not None:
        return PrivacyGuarantee(
            epsilon=math.inf,
            delta=delta,
            adjacency=adjacency,
            protects=protects,
            event=events_of.NonPrivateDpEvent(),
            assumptions=assumptions,
        )
    if len(guarantees) == 1:
        return guarantees[0]
    if any(item.event is None for item in guarantees):
        raise ValueError(
            "guarantees hold one without an event (its plan was made from noisy sizes), which "
            "cannot be composed further; declare 'group_sizes' instead of buying them"
        )
    event = canonical(events_of.ComposedDpEvent(tuple(item.event for item in guarantees)))
    return PrivacyGuarantee(
        epsilon=event_epsilon(event, delta, adjacency),
        delta=delta,
        adjacency=adjacency,
        protects=protects,
        accountant=accountant_name(event, delta, adjacency),
        event=event,
        assumptions=assumptions,
    )


def _composed(plan: Plan, steps: list[tuple[float, float]]) -> DpEvent:
    sums = [
        events_of.SelfComposedDpEvent(
            events_of.PoissonSampledDpEvent(rate, events_of.GaussianDpEvent(multiplier)),
            segment.steps,
        )
        for segment, (rate, multiplier) in zip(plan.segments, steps, strict=True)
    ]
    counts = [
        events_of.SelfComposedDpEvent(
            events_of.DiscreteLaplaceDpEvent(count.epsilon, 1), count.releases
        )
        for count in plan.counts
    ]
    return canonical(events_of.ComposedDpEvent([*sums, *counts]))


def _worst_case(segment: Segment, n_cells: int) -> tuple[float, float]:
    multipliers = [segment.multiplier(cell) for cell in range(n_cells)]
    touched = [rate for rate, m in zip(segment.rates, multipliers, strict=True) if math.isfinite(m)]
    return max(touched, default=0.0), min(multipliers, default=math.inf)
