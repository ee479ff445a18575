"""Fairness claims that follow from a mechanism alone, without held-out rows."""

from __future__ import annotations

from collections.abc import Sequence

from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import Notion
from skfairdp.fairness.scopes import TRAINING
from skfairdp.protocol import answers_of
from skfairdp.receipts.receipt import receipt_of
from skfairdp.receipts.unwrap import Deployed, charges_privacy


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
    receipt = receipt_of(deployed.final)  # of a model that was taken out of a search, too
    searched |= receipt is not None and receipt.one_of_several
    if claims and (searched or deployed.changes):
        # True of one fit over its noise, not of the best of several, nor of what was put in
        # its place.
        claims = tuple(claim for claim in claims if claim.scope != TRAINING)
    return claims
