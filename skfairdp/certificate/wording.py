"""What a certificate says, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from skfairdp.fairness.guarantee import FairnessGuarantee, rounded_up
from skfairdp.privacy.guarantee import ADJACENCIES, PrivacyGuarantee

__all__ = ["claim_line", "confidence", "epsilon_text", "privacy_lines", "sentence", "text"]

PROTECTED = {
    "record": "the training records are protected",
    "sensitive_features": "the sensitive features of the training records are protected",
    "released_representation": "each person behind a released representation is protected",
}


class Statement(Protocol):
    """What `text` needs of a certificate."""

    @property
    def privacy(self) -> PrivacyGuarantee | None: ...
    @property
    def fairness(self) -> tuple[FairnessGuarantee, ...]: ...
    @property
    def model_digest(self) -> str: ...
    @property
    def model_name(self) -> str: ...
    @property
    def remarks(self) -> tuple[str, ...]: ...
    @property
    def created(self) -> str: ...
    @property
    def library_versions(self) -> dict[str, str]: ...
    @property
    def sentence(self) -> str: ...


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
    if noisy:
        clause = clause.replace("training records", "training and held-out records")
    return f"{_fairness_clause(fairness, n_rows)}; {clause}."


def _fairness_clause(fairness: Sequence[FairnessGuarantee], n_rows: int | None) -> str:
    people = (
        "people like those held out" if n_rows is None else f"people like the {n_rows} held out"
    )
    by_scope = {claim.scope: [c for c in fairness if c.scope == claim.scope] for claim in fairness}
    deployed = by_scope.get("deployed model", [])
    useful = [claim for claim in deployed if claim.informative]
    if useful:
        level = confidence(useful[0])
        return f"With {level} confidence {_differences(useful)} on {people}"
    downstream = [c for c in by_scope.get("any downstream predictor", []) if c.informative]
    if downstream:
        return f"Whatever is predicted from the released representation, {_differences(downstream)}"
    if deployed:
        rates = _listed([claim.rates for claim in deployed])
        return f"No useful bound on differences in {rates} follows for {people}"
    averaged = [c for c in by_scope.get("training mechanism", []) if c.informative]
    if averaged:
        scope = "Averaged over the noise of training (not for this one model)"
        return f"{scope}, {_differences(averaged)}"
    return "Nothing is claimed about differences between groups"


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
        f"δ = {privacy.delta:g}"
    )


def _listed(parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


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


def claim_line(claim: FairnessGuarantee) -> str:
    """Print a fairness claim with its scope and confidence.

    Parameters
    ----------
    claim : FairnessGuarantee
        The claim.

    Returns
    -------
    str
    """
    figure = f"at most {claim.figure}" if claim.informative else claim.figure
    observed = "" if claim.estimate is None else f", observed {claim.estimate:.3f}"
    certain = (
        "no statistical error"
        if claim.confidence_level is None
        else f"{confidence(claim)} confidence"
    )
    return (
        f"{claim.notion}: largest difference of {claim.rates} {figure}{observed} "
        f"[{claim.scope}; {certain}; {claim.method}]"
    )


def privacy_lines(privacy: PrivacyGuarantee | None) -> list[str]:
    """Print the privacy claim, one line a part.

    Parameters
    ----------
    privacy : PrivacyGuarantee or None
        The claim.

    Returns
    -------
    list of str
    """
    if privacy is None:
        return ["none: trained with epsilon=inf"]
    if privacy.is_void:
        return ["none (ε = ∞)"]
    lines = [
        f"ε = {epsilon_text(privacy.epsilon)}, δ = {privacy.delta:g}, protects: {privacy.protects}",
        f"adjacency {privacy.adjacency}: {ADJACENCIES[privacy.adjacency]}",
        f"accountant: {privacy.accountant}",
    ]
    if privacy.per_group:
        groups = ", ".join(f"{k}: {epsilon_text(v)}" for k, v in privacy.per_group.items())
        lines.append(f"ε of a record by its group: {groups}")
    return lines


def assumptions(
    privacy: PrivacyGuarantee | None, fairness: Sequence[FairnessGuarantee]
) -> list[tuple[str, tuple[str, ...]]]:
    """Collect what the claims assume, each text once per kind of claim.

    Parameters
    ----------
    privacy : PrivacyGuarantee or None
        The privacy claim.
    fairness : sequence of FairnessGuarantee
        The fairness claims.

    Returns
    -------
    list of (str, tuple of str)
        Title and texts.
    """
    found: list[tuple[str, tuple[str, ...]]] = []
    if privacy is not None and privacy.assumptions:
        title = "Why there is no privacy claim" if privacy.is_void else "Privacy assumes"
        found.append((title, privacy.assumptions))
    for scope in dict.fromkeys(claim.scope for claim in fairness):
        texts = (t for claim in fairness if claim.scope == scope for t in claim.assumptions)
        found.append((f"Fairness ({scope}) assumes", tuple(dict.fromkeys(texts))))
    return [(title, texts) for title, texts in found if texts]


def text(certificate: Statement) -> str:
    """Print a whole certificate.

    Parameters
    ----------
    certificate : Certificate
        The certificate.

    Returns
    -------
    str
        The first line is one sentence.
    """
    lines = [certificate.sentence, ""]
    lines.append("Fairness")
    lines += [f"  {claim_line(claim)}" for claim in certificate.fairness]
    lines += [f"  {remark}" for remark in certificate.remarks]
    if not certificate.fairness and not certificate.remarks:
        lines.append("  no claim: certify with held-out rows and their sensitive_features")
    lines.append("Privacy")
    lines += [f"  {line}" for line in privacy_lines(certificate.privacy)]
    for title, texts in assumptions(certificate.privacy, certificate.fairness):
        lines.append(title)
        lines += [f"  - {item}" for item in texts]
    versions = ", ".join(f"{k} {v}" for k, v in certificate.library_versions.items())
    lines += [
        "Model",
        f"  {certificate.model_name}, {certificate.model_digest}",
        f"  certified {certificate.created} with {versions}",
    ]
    return "\n".join(lines)
