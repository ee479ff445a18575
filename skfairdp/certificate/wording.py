"""What a certificate says, in words."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence

from skfairdp.fairness.guarantee import FairnessGuarantee, rounded_up
from skfairdp.privacy.guarantee import PROTECTS, PrivacyGuarantee

__all__ = [
    "confidence",
    "epsilon_text",
    "group_text",
    "learned_from",
    "number_text",
    "protected_text",
    "sentence",
]

PROTECTED = {
    "record": "the training records are protected",
    "sensitive_features": "the sensitive features of the training records are protected",
    "released_representation": (
        "each person is protected in what was released of them, and in nothing else,"
    ),
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
    clause = _privacy_clause(privacy)
    # Where only the group is protected, counts have a cost of their own: an assumption says it.
    if noisy and privacy is not None and not privacy.is_void and privacy.protects == "record":
        clause = clause.replace("training records", "training and held-out records")
    return f"{_fairness_clause(fairness, n_rows)}; {clause}."


def _fairness_clause(fairness: Sequence[FairnessGuarantee], n_rows: int | None) -> str:
    people = (
        "people like those held out" if n_rows is None else f"people like the {n_rows} held out"
    )
    by_scope = {claim.scope: [c for c in fairness if c.scope == claim.scope] for claim in fairness}
    deployed = by_scope.get("deployed model", [])
    useful = _smallest(claim for claim in deployed if claim.informative)
    if useful:
        estimated = [claim for claim in useful if claim.confidence_level is not None]
        if not estimated:
            return f"Whoever the people are, {_differences(useful)}"
        level = confidence(estimated[0])
        return f"With {level} confidence {_differences(useful)} on {people}"
    downstream = [c for c in by_scope.get("any downstream predictor", []) if c.informative]
    if downstream:
        return f"Whatever is predicted from the released representation, {_differences(downstream)}"
    if deployed:
        rates = _listed([claim.rates for claim in _smallest(deployed)])
        return f"No useful bound on differences in {rates} follows for {people}"
    answered = [c for c in by_scope.get("answered queries", []) if c.informative]
    if answered:
        return f"Among the queries answered so far {_differences(answered)}"
    averaged = [c for c in by_scope.get("training mechanism", []) if c.informative]
    if averaged:
        scope = "Averaged over the noise of training (not for this one model)"
        return f"{scope}, {_differences(averaged)}"
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


def _privacy_clause(privacy: PrivacyGuarantee | None) -> str:
    if privacy is None:
        return "the training records are not protected (trained with epsilon=inf)"
    if privacy.is_void:
        return "nothing is promised about the privacy of the training records (reason below)"
    return (
        f"{PROTECTED[privacy.protects]} with ε = {epsilon_text(privacy.epsilon)}, "
        f"δ = {number_text(privacy.delta)}"
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
    shared = privacy.protects == "record" and privacy.adjacency in ("zero-out", "replace-one")
    return PROTECTS[privacy.protects] + (" except its group" if shared else "")


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
    return "the releases" if privacy.protects == "released_representation" else "the model"


def epsilon_text(epsilon: float) -> str:
    """Print epsilon with up to four decimals, rounded up.

    Parameters
    ----------
    epsilon : float
        Privacy loss in nats.

    Returns
    -------
    str
    """
    if epsilon == float("inf"):
        return "∞"
    digits = rounded_up(epsilon, 4).rstrip("0")
    return f"{digits}0" if digits.endswith(".") else digits


def number_text(value: float) -> str:
    """Print a small number as people write it, 1e-6 and not 1e-06.

    Parameters
    ----------
    value : float
        The number.

    Returns
    -------
    str
    """
    return re.sub(r"e([+-])0+", r"e\1", f"{value:g}")


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
    return f"{round(100 * claim.confidence_level, 6):g} %"
