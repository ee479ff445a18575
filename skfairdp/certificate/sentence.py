"""A certificate in one sentence, and the phrases that every form of it shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skfairdp.fairness import derivation as by
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.figures import epsilon_text, percent_text, significant_up
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.relations import PROTECTED

_DRAWS = "About rates averaged over the model's random draws, not about this one model."
# What a bound of each scope is about; who it is about, `population` says.
SCOPE_TEXT = {
    by.DEPLOYED: "Counts the answers of this model as it is deployed, with the key of its draws.",
    by.AVERAGED: _DRAWS,
    by.ANY_POPULATION: _DRAWS,
    by.TRAINING: "About the average over the noise of training, not about this one model.",
    by.DOWNSTREAM: "About whatever is predicted from the representation, averaged over its noise.",
    by.DOWNSTREAM_LIKE: "About whatever is predicted from one code, averaged over its noise.",
    by.ANSWERED: "About the answers given so far, and no others.",
}
# How the sentence begins where no bound on the deployed model is stated, in order of preference.
_LEADS = {
    by.DOWNSTREAM_LIKE: "With {certainty}, whatever is predicted from one released code, averaged "
    "over its noise",
    by.DOWNSTREAM: "Whatever is predicted from the released representation, averaged over its "
    "noise",
    by.ANY_POPULATION: "For any people, averaged over the model's random draws (not for this one "
    "model)",
    by.AVERAGED: "With {certainty}, averaged over the model's random draws (not for this one "
    "model)",
    by.ANSWERED: "Among the queries answered so far",
    by.TRAINING: "Averaged over the noise of training (not for this one model)",
}


def certificate_sentence(
    privacy: PrivacyGuarantee | None, fairness: Sequence[FairnessGuarantee], n_rows: int | None
) -> str:
    """Say the claims in one sentence; `n_rows` where the number of held-out rows is public."""
    return f"{_fairness_clause(fairness, n_rows)}; {_privacy_clause(privacy, fairness)}."


def _fairness_clause(fairness: Sequence[FairnessGuarantee], n_rows: int | None) -> str:
    deployed = _smallest(claim for claim in fairness if claim.scope == by.DEPLOYED)
    useful = [claim for claim in deployed if claim.informative]
    if useful:
        about = population(useful[0], n_rows)
        return f"With {certainty(useful[0])} {_differences(useful)} on {about}"
    if deployed:
        rates = _listed([claim.rates for claim in deployed])
        about = population(deployed[0], n_rows)
        return f"No useful bound on differences in {rates} follows for {about}"
    for scope, lead in _LEADS.items():
        found = _smallest(c for c in fairness if c.scope == scope and c.informative)
        if found:
            about = f" on {population(found[0], n_rows)}" if scope in by.FROM_ROWS else ""
            return f"{lead.format(certainty=certainty(found[0]))}, {_differences(found)}{about}"
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
    # Where only the group is protected, counts have a cost of their own: an assumption says it.
    counted = any(count.noisy for claim in fairness for count in claim.counts)
    records = "training and held-out records" if counted else "training records"
    return (
        f"{PROTECTED[privacy.protects].clause.format(records=records)} "
        f"with ε = {epsilon_text(privacy.epsilon)}, δ = {significant_up(privacy.delta)}"
    )


def population(claim: FairnessGuarantee, n_rows: int | None) -> str:
    """Say whom a bound is about."""
    if claim.scope in by.FROM_ROWS:
        return f"people like {'those' if n_rows is None else f'the {n_rows}'} held out"
    return "the people answered so far" if claim.scope == by.ANSWERED else "any people"


def certainty(claim: FairnessGuarantee) -> str:
    """Say how sure a bound is."""
    if claim.confidence_level is not None:
        return f"{percent_text(claim.confidence_level)} confidence"
    return "counted" if claim.scope == by.ANSWERED else "derived, not estimated from rows"
