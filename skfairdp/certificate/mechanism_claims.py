"""Fairness claims that follow from a mechanism alone, without held-out rows."""

from __future__ import annotations

from collections.abc import Sequence

from dp_accounting.dp_event import RepeatAndSelectDpEvent

from skfairdp.certificate.unwrap import Deployed, charges_privacy
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import Notion
from skfairdp.fairness.scopes import TRAINING
from skfairdp.privacy.accounting.events import parts_of
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.plan import Plan
from skfairdp.protocol import answers_of


def claims_of_mechanism(
    deployed: Deployed, notions: Sequence[Notion], turned: bool
) -> tuple[FairnessGuarantee, ...]:
    """Collect the bounds that a fitted model states before any evaluation.

    `turned`: whether the first of two classes is the positive one.
    """
    # What mechanisms promise about the second class is not said of the first.
    notions = tuple(n for n in notions if not turned or n.alike_for_both)
    hooks = [answers_of(deployed.final)._mechanism_fairness]
    place = deployed.place_of_release
    # A model that also sees the group of a row sees more than its release.
    if place is not None and hasattr(deployed.final, "predict") and not deployed.group_aware:
        hooks.append(deployed.stages[place][1]._mechanism_fairness)
    claims = tuple(claim for hook in hooks for n in notions for claim in hook(n.name))
    searched = any(charges_privacy(search) for search in deployed.searches)
    if claims and (searched or _chosen_from_several(deployed.final) or deployed.changes):
        # True of one fit over its noise, not of the best of several, nor of what was put in
        # its place.
        claims = tuple(claim for claim in claims if claim.scope != TRAINING)
    return claims


def _chosen_from_several(final: object) -> bool:
    """Whether a model, taken out of a search of skfairdp, states the cost of the whole search."""
    stated, plan = getattr(final, "privacy_", None), getattr(final, "plan_", None)
    if not isinstance(stated, PrivacyGuarantee) or not isinstance(plan, Plan):
        return False
    if stated.event is None:
        return plan.prior_epsilon == 0.0
    return any(isinstance(part, RepeatAndSelectDpEvent) for part, _ in parts_of(stated.event))
