"""Cost of a plan: its events, its epsilon, and the guarantee that follows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent

from skfairdp.foundation.assumptions import VALIDATION
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.figures import as_given, significant_up
from skfairdp.privacy.accounting.accountants import accountant_name, event_epsilon
from skfairdp.privacy.accounting.events import canonical, covering_event, events
from skfairdp.privacy.accounting.exposure import Exposure
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.relations import NEIGHBOURS, accounted


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
    adjacency : {"add-remove", "zero-out", "replace-one", "change-attribute"} or None, \
default=None
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
    >>> block = Block(name="gradient", max_norm=1.0, weights=(0.01,), noise_std=0.011)
    >>> step = Segment(steps=1000, rates=(0.01,), expected_sizes=(100.0,), blocks=(block,))
    >>> plan = Plan(cells=("all",), segments=(step,), adjacency="zero-out", delta=1e-5)
    >>> round(epsilon(plan), 4)
    1.5154
    """
    if isinstance(event_or_plan, Plan):
        return max(epsilons(event_or_plan, delta, adjacency).values())
    if delta is None:
        raise ValueError("delta=None is not allowed for an event: give a probability in [0, 1)")
    return event_epsilon(event_or_plan, delta, adjacency or "add-remove")


@completed_by(epsilon, events)
def epsilons(
    plan: Plan, delta: float | None = None, adjacency: str | None = None
) -> dict[Hashable, float]:
    """Upper bound on epsilon for a record of each cell.

    Returns
    -------
    dict
        Cell label to epsilon in nats.
    """
    delta = plan.delta if delta is None else delta
    plan = replace(plan, adjacency=adjacency or plan.adjacency)
    # The plan was computed from the answer to what `prior_epsilon` paid for. Basic
    # composition holds for whatever plan that led to; composing loss distributions
    # would need one that dominates all of them. The answer changes in every place of the record.
    prior = NEIGHBOURS[plan.adjacency].places * plan.prior_epsilon
    return {
        cell: prior + event_epsilon(event, delta, plan.adjacency)
        for cell, event in zip(plan.cells, events(plan), strict=True)
    }


def guarantee(
    plan: Plan,
    *,
    protects: str = "record",
    budget: float | None = None,
    assumptions: Iterable[str] = (),
) -> PrivacyGuarantee:
    """State the guarantee of a plan.

    `budget`: target epsilon that the plan was calibrated to, stated instead of the plan's own cost
    where that depends on a private answer (``plan.prior_epsilon > 0``). Result: void for a plan
    without noise, and for one made from a private answer without a budget.
    """
    assumptions = dict.fromkeys((*assumptions, VALIDATION))
    costs = epsilons(plan)
    largest = max(costs.values())
    relation: dict[str, Any] = dict(delta=plan.delta, adjacency=plan.adjacency, protects=protects)
    if math.isinf(largest):
        reason = "The plan releases sums or counts without noise."
        return PrivacyGuarantee.void(reason, *assumptions, **relation)
    if budget is not None and largest > budget:
        raise ValueError(
            f"the plan costs epsilon={significant_up(largest)}, above its "
            f"budget={as_given(budget)}: calibrate the noise to the budget"
        )
    event = covering_event(plan)
    accountant = accountant_name(event, plan.delta, plan.adjacency)
    if plan.prior_epsilon == 0.0:
        # A changed attribute is a matter of two groups: there is no figure of one.
        apart = len(plan.cells) > 1 and not NEIGHBOURS[plan.adjacency].two_cells
        shares = zip(plan.cells, events(plan), strict=True) if apart else ()
        return PrivacyGuarantee(
            epsilon=largest,
            accountant=accountant,
            per_group=costs if apart else None,
            event=event,
            exposures=tuple(Exposure(own, (cell,)) for cell, own in shares),
            assumptions=tuple(assumptions),
            **relation,
        )
    if budget is None:
        reason = (
            "The noise multiplier was fixed and the sampling rates were made from noisy sizes, so "
            "epsilon depends on a private answer and bounds nothing: set epsilon instead."
        )
        return PrivacyGuarantee.void(reason, *assumptions, **relation)
    note = (
        f"epsilon is the budget fixed in advance; {as_given(plan.prior_epsilon)} of it bought the "
        "noisy sizes that the plan was made from, added by basic composition"
    )
    # No single event covers a plan that was chosen after a private answer.
    return PrivacyGuarantee(
        epsilon=budget, accountant=accountant, assumptions=(note, *assumptions), **relation
    )


def budget_guarantee(
    epsilon: float | None, delta: float, *, reproducible: bool = False, protects: str = "record"
) -> PrivacyGuarantee | None:
    """State the guarantee before a plan that will depend on a bought answer.

    `epsilon`: the budget in nats, of which the answer is a part; None: the noise is fixed
    instead. Result: without an event; void where the final statement will be; None without noise.
    """
    if epsilon is not None and math.isinf(epsilon):
        return None
    if epsilon is None or reproducible:
        how = "the noise repeats with a seed" if reproducible else "no budget was fixed"
        return PrivacyGuarantee.void(f"{how}, and the plan is made from a private answer")
    note = "epsilon is the budget fixed in advance; the plan was made from a private answer"
    return PrivacyGuarantee(
        float(epsilon), float(delta), "add-remove", protects, assumptions=(note, VALIDATION)
    )


def compose(
    guarantees: Sequence[PrivacyGuarantee], *, delta: float | None = None
) -> PrivacyGuarantee:
    """Compose the guarantees of several releases about the same records.

    Parameters
    ----------
    guarantees : sequence of PrivacyGuarantee
        At least one; all for the same adjacency and the same protected thing.
    delta : float or None, default=None
        Delta of the joint statement, in [0, 1). None takes the largest one given, plus
        the deltas of guarantees that have no event.

    Returns
    -------
    PrivacyGuarantee
        Computed from the composition of the events; one without an event enters as a pure one
        of its epsilon (for a changed attribute or a replaced record, with events, its epsilon
        is added), and its delta is set aside. Void if one of them is.

    Raises
    ------
    ValueError
        If there is none; if they speak of different relations: such statements stand
        side by side and have no total; if `delta` is below what is set aside.

    Examples
    --------
    >>> from dp_accounting import dp_event
    >>> from skfairdp.privacy import PrivacyGuarantee, compose
    >>> one = PrivacyGuarantee(5.0, 1e-5, "zero-out", event=dp_event.GaussianDpEvent(1.0))
    >>> round(compose([one, one]).epsilon, 2)
    6.57
    """
    if not guarantees:
        raise ValueError("guarantees is empty: give at least one guarantee to compose")
    if len(guarantees) == 1 and delta in (None, guarantees[0].delta):
        return guarantees[0]
    if any(accounted(item.adjacency) is None for item in guarantees if not item.is_void):
        # What the events mean there is the mechanism's affair; the statements are enough.
        guarantees = [
            item if item.is_void else replace(item, event=None, exposures=()) for item in guarantees
        ]
    aside = sum(item.delta for item in guarantees if item.event is None)
    if delta is None:
        delta = aside + max((item.delta for item in guarantees if item.event), default=0.0)
    assumptions = tuple(dict.fromkeys(text for item in guarantees for text in item.assumptions))
    relations = {(item.adjacency, item.protects) for item in guarantees if not item.is_void}
    if len(relations) > 1:
        raise ValueError(
            f"guarantees speak of different relations, {sorted(relations)}: they have no "
            "total; compose those of one relation and state the others separately"
        )
    if any(item.is_void for item in guarantees):
        named = relations or {(guarantees[0].adjacency, guarantees[0].protects)}
        void = dict(zip(("adjacency", "protects"), *named, strict=True))
        return PrivacyGuarantee.void(*assumptions, delta=delta, **void)
    if delta < aside:
        raise ValueError(
            f"delta={delta!r} is below {aside!r}, the total of the guarantees without an event: "
            "give a larger delta"
        )
    ((adjacency, protects),) = relations
    cost, accountant, event = _composed_cost(guarantees, delta - aside, adjacency)
    return PrivacyGuarantee(
        epsilon=cost,
        delta=delta,
        adjacency=adjacency,
        protects=protects,
        accountant=accountant,
        event=None if aside > 0.0 else event,
        assumptions=assumptions,
    )


def _composed_cost(
    guarantees: Sequence[PrivacyGuarantee], delta: float, adjacency: str
) -> tuple[float, str, DpEvent | None]:
    """Epsilon of a composition, the accountant's name, and the event if one covers all."""
    given = tuple(item.event for item in guarantees if item.event is not None)
    plain = [item.epsilon for item in guarantees if item.event is None]
    # An (epsilon, delta) promise is, but for an event of probability delta, no worse than
    # discrete Laplace noise of the same pure epsilon.
    pure = tuple(dp_event.DiscreteLaplaceDpEvent(number, 1) for number in plain)
    relation = adjacency
    two_places = NEIGHBOURS[adjacency].places == 2
    if accounted(adjacency) is None or (two_places and not given):
        # What is promised about both data sets is the same pair whatever the relation is.
        relation = "add-remove"
    elif two_places and pure:
        # There, an event is what is released of one record, and is charged in both places; a
        # promise about both is not such an event, and is added by basic composition.
        events_alone = canonical(dp_event.ComposedDpEvent(given))
        cost = sum(plain) + event_epsilon(events_alone, delta, adjacency)
        return cost, "basic composition", None
    event = canonical(dp_event.ComposedDpEvent((*given, *pure)))
    cost = event_epsilon(event, delta, relation)
    kept = event if relation == adjacency else None
    # Where little or no delta is left, pure releases compose no better than by their sum, and
    # the accountants, which cut off tails, do worse.
    others = tuple(item.event for item in guarantees if item.event and item.delta > 0.0)
    rest = event_epsilon(dp_event.ComposedDpEvent(others), delta, relation) if others else 0.0
    alone = (item.epsilon for item in guarantees if item.event is None or item.delta == 0.0)
    basic = sum(alone) + rest
    if basic < cost:
        return basic, "basic composition", kept
    return cost, accountant_name(event, delta, relation), kept
