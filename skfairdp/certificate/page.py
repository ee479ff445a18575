"""A certificate as a self-contained piece of HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from skfairdp.certificate import wording
from skfairdp.certificate.plain_text import assumptions
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.scopes import ANSWERED
from skfairdp.figures import epsilon_text, significant_up
from skfairdp.privacy.guarantee import ADJACENCIES, PrivacyGuarantee

if TYPE_CHECKING:
    from skfairdp.certificate.statement import Certificate

__all__ = ["certificate_page"]

# Colours come from the page around it, so that light and dark pages both stay readable.
STYLE = """
.skfairdp-certificate{font-family:system-ui,sans-serif;max-width:52rem;line-height:1.45;
 border:1px solid rgba(128,128,128,.5);border-radius:.5rem;padding:1rem 1.25rem}
.skfairdp-certificate h2{font-size:.8rem;letter-spacing:.08em;text-transform:uppercase;
 margin:0 0 .4rem;opacity:.75;font-weight:600}
.skfairdp-certificate .skfairdp-sentence{font-size:1.15rem;font-weight:600;margin:0 0 1rem}
.skfairdp-certificate .skfairdp-cards{display:flex;flex-wrap:wrap;gap:.75rem;margin-bottom:1rem}
.skfairdp-certificate .skfairdp-card{flex:1 1 15rem;border:1px solid rgba(128,128,128,.35);
 border-radius:.4rem;padding:.7rem .9rem;background:rgba(128,128,128,.07)}
.skfairdp-certificate .skfairdp-figure{font-size:1.6rem;font-weight:650;margin:.1rem 0}
.skfairdp-certificate .skfairdp-claim{border-left:.3rem solid #2f6fab}
.skfairdp-certificate .skfairdp-none{border-left:.3rem solid #d08a1d}
.skfairdp-certificate p{margin:.25rem 0}
.skfairdp-certificate small,.skfairdp-certificate .skfairdp-small{font-size:.85rem;opacity:.85}
.skfairdp-certificate details{margin:.4rem 0}
.skfairdp-certificate summary{cursor:pointer;font-weight:600}
.skfairdp-certificate ul{margin:.3rem 0 .6rem;padding-left:1.3rem}
.skfairdp-certificate table{border-collapse:collapse;margin:.4rem 0;font-size:.9rem;color:inherit}
.skfairdp-certificate th,.skfairdp-certificate td{padding:.2rem .7rem;text-align:right;
 border-bottom:1px solid rgba(128,128,128,.3);background:none;color:inherit}
.skfairdp-certificate th:first-child,.skfairdp-certificate td:first-child,
.skfairdp-certificate th.skfairdp-text,.skfairdp-certificate td.skfairdp-text{text-align:left}
.skfairdp-certificate code{font-size:.8rem;overflow-wrap:anywhere;background:none;color:inherit}
"""


def certificate_page(certificate: Certificate) -> str:
    """Render a certificate for readers who are not programmers.

    Parameters
    ----------
    certificate : Certificate
        The certificate.

    Returns
    -------
    str
        HTML with its own style; every value is escaped.
    """
    cards = [_fairness_card(claim, certificate.n_rows) for claim in certificate.fairness]
    if not cards:
        cards = [_no_fairness_card(certificate.remarks)]
    cards.append(_privacy_card(certificate.privacy))
    sections = assumptions(certificate.privacy, certificate.fairness)
    return (
        f"<style>{STYLE}</style><article class='skfairdp-certificate'><h2>Certificate</h2>"
        f"<p class='skfairdp-sentence'>{_unbroken(certificate.sentence)}</p>"
        f"<div class='skfairdp-cards'>{''.join(cards)}</div>"
        f"<details open><summary>What this rests on</summary>{_sections(sections)}</details>"
        f"{_counts(certificate.fairness)}{_provenance(certificate)}</article>"
    )


def _unbroken(sentence: str) -> str:
    """Keep every "symbol = figure" on one line."""
    return re.sub(
        r"([εδ] = [\d.e∞-]*[\d∞])", r"<span style='white-space:nowrap'>\1</span>", escape(sentence)
    )


def _fairness_card(claim: FairnessGuarantee, n_rows: int | None) -> str:
    kind = "skfairdp-claim" if claim.informative else "skfairdp-none"
    figure = f"≤ {claim.figure}" if claim.informative else "No useful bound"
    title = claim.notion.replace("_", " ")
    observed = ""
    if claim.estimate is not None and claim.scope != ANSWERED:
        observed = f"Observed on the held-out rows: {claim.estimate:.3f}. "
    terms = f"{claim.scope}; {wording.certainty(claim)}; {wording.population(claim, n_rows)}. "
    about = observed + terms[0].upper() + terms[1:] + wording.SCOPE_TEXT[claim.scope]
    meaning = ""
    if claim.informative:
        meaning = (
            f"<p>Largest difference in {escape(claim.rates)} between any two groups.</p>"
            f"<p class='skfairdp-small'>{escape(claim.meaning)}</p>"
        )
    return (
        f"<section class='skfairdp-card {kind}'><h2>{escape(title)}</h2>"
        f"<p class='skfairdp-figure'>{escape(figure)}</p>{meaning}"
        f"<p class='skfairdp-small'>{escape(about)}</p>"
        "</section>"
    )


def _no_fairness_card(remarks: Iterable[str]) -> str:
    texts = list(remarks) or ["The model was not evaluated on held-out rows with groups."]
    return (
        "<section class='skfairdp-card skfairdp-none'><h2>Fairness</h2>"
        "<p class='skfairdp-figure'>No claim</p>"
        + "".join(f"<p class='skfairdp-small'>{escape(text)}</p>" for text in texts)
        + "</section>"
    )


def _privacy_card(privacy: PrivacyGuarantee | None) -> str:
    start = "<section class='skfairdp-card {}'><h2>Privacy</h2><p class='skfairdp-figure'>{}</p>"
    if privacy is None:
        reason = "The model was trained without noise (epsilon=inf), for comparison."
        return start.format("skfairdp-none", "None") + f"<p>{reason}</p></section>"
    if privacy.is_void:
        return (
            start.format("skfairdp-none", "No promise")
            + f"<p>{escape(privacy.assumptions[0])}</p></section>"
        )
    groups = ""
    if privacy.per_group:
        parts = ", ".join(
            f"{wording.group_text(k)}: {epsilon_text(v)}" for k, v in privacy.per_group.items()
        )
        groups = f"<p class='skfairdp-small'>ε of a record by its group: {escape(parts)}.</p>"
    return (
        start.format("skfairdp-claim", f"ε = {escape(epsilon_text(privacy.epsilon))}")
        + f"<p>δ = {significant_up(privacy.delta)}; "
        f"protects {escape(wording.protected_text(privacy))}.</p>"
        f"<p class='skfairdp-small'>Whatever anyone learns from {wording.learned_from(privacy)} "
        "would have been at most e<sup>ε</sup> times as likely or unlikely if "
        f"{escape(ADJACENCIES[privacy.adjacency])}; "
        f"up to a failure of probability δ.</p>{groups}"
        f"<p class='skfairdp-small'>Computed by {escape(privacy.accountant)}.</p></section>"
    )


def _sections(sections: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    return "".join(
        f"<p><b>{escape(title)}</b></p><ul>"
        + "".join(f"<li>{escape(text)}</li>" for text in texts)
        + "</ul>"
        for title, texts in sections
    )


def _counts(fairness: Iterable[FairnessGuarantee]) -> str:
    tables = [
        f"<p><b>{escape(claim.notion.replace('_', ' '))}</b> "
        f"({escape(claim.scope)}; {escape(claim.method)})</p>"
        "<table><thead><tr><th>Group</th><th class='skfairdp-text'>Among</th><th>Successes</th>"
        "<th>Rows</th><th>Rate</th></tr></thead><tbody>"
        + "".join(map(_count_row, claim.counts))
        + "</tbody></table>"
        for claim in fairness
        if claim.counts
    ]
    if not tables:
        return ""
    return f"<details><summary>Counts behind the bounds</summary>{''.join(tables)}</details>"


def _count_row(count: CellCount) -> str:
    rate = "no rows"
    if count.trials > 0:
        rate = f"{min(max(count.successes / count.trials, 0.0), 1.0):.3f}"
    noisy = " (noisy)" if count.noisy else ""
    return (
        f"<tr><td>{escape(wording.group_text(count.group))}</td><td class='skfairdp-text'>"
        f"{escape(count.stratum or 'all')}</td><td>{count.successes:.6g}{noisy}</td>"
        f"<td>{count.trials:.6g}{noisy}</td><td>{rate}</td></tr>"
    )


def _provenance(certificate: Certificate) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in certificate.library_versions.items())
    return (
        "<details><summary>Which model, when, with what</summary>"
        f"<p class='skfairdp-small'>{escape(certificate.model_name)}<br>"
        f"<code>{escape(certificate.model_digest)}</code><br>Certified "
        f"{escape(certificate.created)} with {escape(versions)}</p></details>"
    )
