"""What a reader might think a certificate says, and it doesn't."""

from __future__ import annotations

from collections.abc import Sequence

from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import NOTIONS
from skfairdp.fairness.scopes import DEPLOYED
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.relations import NEIGHBOURS, PROTECTED

_GROUPS = (
    "Fairness to other groups, to groups within the groups named, or to single persons.",
    "Anything about this one model on another population, at a later time, or on rows chosen in "
    "another way.",
)
_USE = (
    "That the model is accurate, or fit for a purpose, or that its use is lawful.",
    "What privacy costs in accuracy: a model trained without it on the same rows would have to be "
    "shown beside this one, and nothing would protect these rows any more.",
    "That it was not chosen among several by looking at their certificates, unless the assumptions "
    "above say how many there were.",
)


def not_claimed(
    privacy: PrivacyGuarantee | None, fairness: Sequence[FairnessGuarantee]
) -> tuple[str, ...]:
    """List what does not follow from the claims."""
    return (*_about_privacy(privacy), *_about_fairness(fairness), *_USE)


def _about_privacy(privacy: PrivacyGuarantee | None) -> list[str]:
    if privacy is None or privacy.is_void:
        return ["Privacy: nothing is promised to the people in the training data."]
    protected, neighbours = PROTECTED[privacy.protects], NEIGHBOURS[privacy.adjacency]
    return [*protected.not_claimed, *neighbours.not_claimed]


def _about_fairness(fairness: Sequence[FairnessGuarantee]) -> list[str]:
    if not fairness:
        return ["Fairness: nothing is said about differences between groups."]
    texts = []
    missing = sorted(set(NOTIONS) - {claim.notion for claim in fairness})
    if missing:
        names = ", ".join(name.replace("_", " ") for name in missing)
        texts.append(f"Other notions of fairness, which this model may violate: {names}.")
    if not any(claim.scope == DEPLOYED and claim.informative for claim in fairness):
        texts.append("A bound on differences between groups when this model is deployed.")
    return [*texts, *_GROUPS]
