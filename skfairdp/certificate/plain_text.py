"""A certificate as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from skfairdp.certificate.wording import (
    SCOPE_TEXT,
    certainty,
    group_text,
    learned_from,
    population,
    protected_text,
)
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import get_notion
from skfairdp.figures import epsilon_text, factor_text, significant_up
from skfairdp.privacy.guarantee import ADJACENCIES, PrivacyGuarantee

__all__ = ["assumptions", "certificate_text"]


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
    def n_rows(self) -> int | None: ...
    @property
    def remarks(self) -> tuple[str, ...]: ...
    @property
    def created(self) -> str: ...
    @property
    def library_versions(self) -> dict[str, str]: ...
    @property
    def sentence(self) -> str: ...


def _claim_line(claim: FairnessGuarantee, n_rows: int | None) -> str:
    """Print a fairness claim with its scope, confidence and population."""
    figure = f"at most {claim.figure}" if claim.informative else claim.figure
    observed = "" if claim.estimate is None else f", observed {claim.estimate:.3f}"
    return (
        f"{claim.notion}: largest difference of {claim.rates} {figure}{observed} "
        f"[{claim.scope}; {certainty(claim)}; {population(claim, n_rows)}; {claim.method}]"
    )


def _times(epsilon: float) -> str:
    """Say e^ε with its figure where that is a figure one can picture."""
    return f"at most {factor_text(epsilon)} times"


def _privacy_lines(privacy: PrivacyGuarantee | None) -> list[str]:
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
        return ["none: trained without noise (epsilon=inf), for comparison"]
    if privacy.is_void:
        return ["none (ε = ∞)"]
    lines = [
        f"ε = {epsilon_text(privacy.epsilon)}, δ = {significant_up(privacy.delta)}, "
        f"protects: {protected_text(privacy)}",
        f"whatever anyone learns from {learned_from(privacy)} is {_times(privacy.epsilon)} as "
        "likely or unlikely as it would be for a neighbouring data set, up to a failure of "
        "probability δ",
        f"neighbouring ({privacy.adjacency}): {ADJACENCIES[privacy.adjacency]}",
        f"accountant: {privacy.accountant}",
    ]
    if privacy.per_group:
        groups = ", ".join(
            f"{group_text(k)}: {epsilon_text(v)}" for k, v in privacy.per_group.items()
        )
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


def certificate_text(certificate: Statement) -> str:
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
    lines += [f"  {_claim_line(claim, certificate.n_rows)}" for claim in certificate.fairness]
    scopes = dict.fromkeys(claim.scope for claim in certificate.fairness)
    lines += [f"  {scope} means: {SCOPE_TEXT[scope]}" for scope in scopes]
    meanings = {c.notion: get_notion(c.notion).meaning for c in certificate.fairness}
    lines += [f"  {name} means: {meaning}" for name, meaning in meanings.items()]
    lines += [f"  {remark}" for remark in certificate.remarks]
    if not certificate.fairness and not certificate.remarks:
        lines.append("  no claim: certify with held-out rows and their sensitive_features")
    lines.append("Privacy")
    lines += [f"  {line}" for line in _privacy_lines(certificate.privacy)]
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
