"""What a certificate says, in words."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.scopes import (
    ANSWERED,
    ANY_POPULATION,
    AVERAGED,
    DEPLOYED,
    DOWNSTREAM,
    TRAINING,
)
from skfairdp.figures import epsilon_text, percent_text, significant_up
from skfairdp.privacy import relations
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.relations import PROTECTED

__all__ = [
    "SCOPE_TEXT",
    "certainty",
    "confidence",
    "group_text",
    "learned_from",
    "population",
    "protected_text",
    "sentence",
]

_DRAWS = "About rates averaged over the model's random draws, not about this one model."
# What a bound of each scope is about; who it is about, `population` says.
SCOPE_TEXT = {
    DEPLOYED: "Counts the answers of this model as it is deployed, with the key of its draws.",
    AVERAGED: _DRAWS,
    ANY_POPULATION: _DRAWS,
    TRAINING: "About the average over the noise of training, not about this one model.",
    DOWNSTREAM: "About whatever is predicted from the representation, averaged over its noise.",
    ANSWERED: "About the answers given so far, and nobody else.",
}
# How the first sentence begins, where no bound on the deployed model is stated.
_LEADS = {
    DOWNSTREAM: "Whatever is predicted from the released representation, averaged over its noise",
    ANY_POPULATION: "Whoever the people are, averaged over the model's random draws (not for this "
    "one model)",
    AVERAGED: "Averaged over the model's random draws (not for this one model)",
    ANSWERED: "Among the queries answered so far",
    TRAINING: "Averaged over the noise of training (not for this one model)",
}


def sentence(
    privacy: PrivacyGuarantee | None, fairness: Sequence[FairnessGuarantee], n_rows: int | None
) -> str:
    """Say the certificate in one sentence.

    Parameters
    ----------
    privacy : PrivacyGuarantee or None
        The privacy claim.
    fairness : sequence of FairnessGuarantee
        The fairness claims.
    n_rows : int or None
        Held-out rows, where their number is public.

    Returns
    -------
    str
    """
    noisy = any(count.noisy for claim in fairness for count in claim.counts)
    # Where only the group is protected, counts have a cost of their own: an assumption says it.
    records = f"training {'and held-out ' if noisy else ''}records"
    return f"{_fairness_clause(fairness, n_rows)}; {_privacy_clause(privacy, records)}."


def _fairness_clause(fairness: Sequence[FairnessGuarantee], n_rows: int | None) -> str:
    deployed = _smallest(claim for claim in fairness if claim.scope == DEPLOYED)
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
        if found and scope == AVERAGED:
            lead = f"With {certainty(found[0])}, {lead[0].lower()}{lead[1:]}"
            return f"{lead}, {_differences(found)} on {population(found[0], n_rows)}"
        if found:
            return f"{lead}, {_differences(found)}"
    return "Nothing is claimed about differences between groups"


def population(claim: FairnessGuarantee, n_rows: int | None) -> str:
    """Say whom a bound is about.

    Parameters
    ----------
    claim : FairnessGuarantee
        The claim.
    n_rows : int or None
        Held-out rows, where their number is public.

    Returns
    -------
    str
    """
    if claim.scope in (DEPLOYED, AVERAGED):
        return f"people like {'those' if n_rows is None else f'the {n_rows}'} held out"
    return "the people answered so far" if claim.scope == ANSWERED else "whoever the people are"


def certainty(claim: FairnessGuarantee) -> str:
    """Say how sure a bound is.

    Parameters
    ----------
    claim : FairnessGuarantee
        The claim.

    Returns
    -------
    str
    """
    if claim.confidence_level is not None:
        return f"{confidence(claim)} confidence"
    return "counted" if claim.scope == ANSWERED else "derived, not estimated from rows"


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


def _privacy_clause(privacy: PrivacyGuarantee | None, records: str) -> str:
    if privacy is None:
        return "the training records are not protected (trained with epsilon=inf)"
    if privacy.is_void:
        return "nothing is promised about the privacy of the training records (reason below)"
    return (
        f"{PROTECTED[privacy.protects].clause.format(records=records)} "
        f"with ε = {epsilon_text(privacy.epsilon)}, "
        f"δ = {significant_up(privacy.delta)}"
    )


def _listed(parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def protected_text(privacy: PrivacyGuarantee) -> str:
    """Say what is protected, and what of it neighbouring data sets share and so give away.

    Parameters
    ----------
    privacy : PrivacyGuarantee
        The claim.

    Returns
    -------
    str
    """
    return relations.protected_text(privacy.protects, privacy.adjacency)


def learned_from(privacy: PrivacyGuarantee) -> str:
    """Name what it is that shows so little about whom the claim protects.

    Parameters
    ----------
    privacy : PrivacyGuarantee
        The claim.

    Returns
    -------
    str
        Releases are no model: what the weights behind them tell is another matter.
    """
    return PROTECTED[privacy.protects].told_by


def group_text(group: Hashable) -> str:
    """Print a group label; an intersection as its parts.

    Parameters
    ----------
    group : hashable
        The label.

    Returns
    -------
    str
    """
    return " & ".join(map(str, group)) if isinstance(group, tuple) else str(group)


def confidence(claim: FairnessGuarantee) -> str:
    """Print the confidence of a claim.

    Parameters
    ----------
    claim : FairnessGuarantee
        The claim.

    Returns
    -------
    str
    """
    if claim.confidence_level is None:
        return "full"
    return percent_text(claim.confidence_level)
