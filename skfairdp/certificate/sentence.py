"""A certificate in one sentence, and the phrases that every form of it shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.scopes import DEPLOYED, SCOPES
from skfairdp.foundation.figures import epsilon_text, percent_text, significant_up
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.relations import PROTECTED


def certificate_sentence(
    privacy: PrivacyGuarantee | None, fairness: Sequence[FairnessGuarantee], n_rows: int | None
) -> str:
    """Say the claims in one sentence; `n_rows` where the number of held-out rows is public."""
    return f"{_fairness_clause(fairness, n_rows)}; {_privacy_clause(privacy, fairness)}."


def _fairness_clause(fairness: Sequence[FairnessGuarantee], n_rows: int | None) -> str:
    for name, scope in SCOPES.items():
        stated = _smallest(claim for claim in fairness if claim.scope == name)
        useful = [claim for claim in stated if claim.informative]
        if useful:
            lead = scope.lead.format(certainty=certainty(useful[0]))
            about = f" on {population(useful[0], n_rows)}" if scope.from_rows else ""
            return f"{lead} {_differences(useful)}{about}"
        if stated and name == DEPLOYED:
            rates = _listed([claim.rates for claim in stated])
            about = population(stated[0], n_rows)
            return f"No useful bound on differences in {rates} follows for {about}"
    return "Nothing is claimed about differences between groups"


def _smallest(claims: Iterable[FairnessGuarantee]) -> list[FairnessGuarantee]:
    """The smallest bound on each notion, in the order of the notions."""
    kept: dict[str, FairnessGuarantee] = {}
    for claim in claims:
        if claim.notion not in kept or claim.bound < kept[claim.notion].bound:
            kept[claim.notion] = claim
    return list(kept.values())


def _differences(claims: Sequence[FairnessGuarantee]) -> str:
    first, *others = claims
    start = f"the {first.rates} of any two groups differ by at most {first.figure}"
    return _listed([start, *(f"their {c.rates} by at most {c.figure}" for c in others)])


def _listed(parts: Sequence[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def _privacy_clause(privacy: PrivacyGuarantee | None, fairness: Sequence[FairnessGuarantee]) -> str:
    if privacy is None:
        return "the training records are not protected (trained with epsilon=inf)"
    if privacy.is_void:
        return "nothing is promised about the privacy of the training records (reason below)"
    # Where only the group is protected, counts have their own cost: an assumption says it.
    counted = any(count.noisy for claim in fairness for count in claim.counts)
    records = "training and held-out records" if counted else "training records"
    return (
        f"{PROTECTED[privacy.protects].clause.format(records=records)} "
        f"with ε = {epsilon_text(privacy.epsilon)}, δ = {significant_up(privacy.delta)}"
    )


def population(claim: FairnessGuarantee, n_rows: int | None) -> str:
    """Name the people that a bound is about."""
    held_out = "those" if n_rows is None else f"the {n_rows}"
    return SCOPES[claim.scope].population.format(held_out=held_out)


def certainty(claim: FairnessGuarantee) -> str:
    """State the confidence of a bound, or why it has none."""
    if claim.confidence_level is None:
        return SCOPES[claim.scope].certainty
    return f"{percent_text(claim.confidence_level)} confidence"
