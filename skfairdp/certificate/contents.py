"""What a report says, section by section, for whoever renders it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from skfairdp.certificate.blocks import Block, Figure, Figures, Items, Section, Table, Text
from skfairdp.certificate.plain_text import assumptions
from skfairdp.certificate.rates import INTERVAL_NOTE, GroupRate, group_rates
from skfairdp.certificate.unclaimed import not_claimed
from skfairdp.certificate.vector import bounds_picture, rates_picture
from skfairdp.certificate.verifying import DIGEST_SHOWS
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
from skfairdp.fairness.scopes import AVERAGED, DEPLOYED
from skfairdp.figures import (
    as_given,
    epsilon_text,
    factor_text,
    rounded_down,
    rounded_up,
    significant_up,
)
from skfairdp.privacy.guarantee import ADJACENCIES, PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.ledger.rendering import HEADINGS, ledger_cells
from skfairdp.privacy.relations import PROTECTED

if TYPE_CHECKING:
    from skfairdp.certificate.statement import Certificate

__all__ = ["report_sections"]

_EXCERPT = 40


def report_sections(
    certificate: Certificate,
    ledger: PrivacyLedger | None = None,
    *,
    epsilon: float | None = None,
    tolerance: float | None = None,
) -> tuple[Section, ...]:
    """Collect what a report says.

    Parameters
    ----------
    certificate : Certificate
        The certificate.
    ledger : PrivacyLedger or None, default=None
        Where the data set's spending is recorded, for an excerpt.
    epsilon : float or None, default=None
        Largest privacy loss that was asked for.
    tolerance : float or None, default=None
        Largest difference between groups that was asked for.

    Returns
    -------
    tuple of Section
    """
    claim, *others = _sections(certificate, ledger)
    asked = [] if epsilon is tolerance is None else [_asked(certificate, epsilon, tolerance)]
    return (claim, *asked, *others)


def _asked(certificate: Certificate, epsilon: float | None, tolerance: float | None) -> Section:
    items = []
    if epsilon is not None:
        kept = "kept" if certificate.satisfies(epsilon) else "NOT kept"
        items.append(f"Privacy loss of at most ε = {as_given(epsilon)}: {kept}.")
    if tolerance is not None:
        kept = "shown" if certificate.satisfies(tolerance=tolerance) else "NOT shown"
        items.append(
            f"Differences between groups of at most {as_given(tolerance)}: {kept} by this "
            "certificate for "
            "the model as it is deployed."
        )
    return Section("What was asked for", (Items(tuple(items)),))


def _sections(certificate: Certificate, ledger: PrivacyLedger | None) -> Iterator[Section]:
    privacy, fairness = certificate.privacy, certificate.fairness
    yield Section("The claim", (Text(certificate.sentence), _key_figures(certificate)))
    yield _privacy(privacy)
    yield _fairness(certificate)
    for claim in fairness:
        yield _claim(claim, certificate.n_rows)
    yield _coverage(certificate)
    for title, texts in assumptions(privacy, fairness):
        yield Section(title, (Items(texts),))
    yield Section("What is not claimed", (Items(not_claimed(privacy, fairness)),))
    yield _model(certificate)
    if ledger is not None:
        yield _ledger(ledger)


def _key_figures(certificate: Certificate) -> Figures:
    figures = []
    for claim in certificate.fairness:
        value = f"≤ {claim.figure}" if claim.informative else "No useful bound"
        name = f"Largest difference, {claim.notion.replace('_', ' ')}"
        how = f"{claim.scope}; {certainty(claim)}; {population(claim, certificate.n_rows)}"
        figures.append((name, value, how, claim.informative))
    if not certificate.fairness:
        remark = next(iter(certificate.remarks), "Not evaluated on held-out rows with groups.")
        figures.append(("Fairness", "No claim", remark, False))
    privacy = certificate.privacy
    if privacy is None or privacy.is_void:
        why = "Trained without noise." if privacy is None else privacy.assumptions[0]
        figures.append(("Privacy", "No promise", why, False))
    else:
        delta = f"δ = {significant_up(privacy.delta)}, {privacy.adjacency}"
        figures.append(("Privacy loss", f"ε = {epsilon_text(privacy.epsilon)}", delta, True))
    return Figures(tuple(figures))


def _privacy(privacy: PrivacyGuarantee | None) -> Section:
    if privacy is None:
        text = "None: the model was trained without noise (epsilon=inf), for comparison."
        return Section("Privacy", (Text(text),))
    if privacy.is_void:
        return Section(
            "Privacy", (Text("None is promised. Reasons:"), Items(tuple(privacy.assumptions)))
        )
    rows = [
        ("Privacy loss ε, at most", epsilon_text(privacy.epsilon)),
        ("Probability of failure δ, at most", significant_up(privacy.delta)),
        ("What is protected", protected_text(privacy)),
        (f"Neighbouring data sets ({privacy.adjacency})", ADJACENCIES[privacy.adjacency]),
        ("Computed by", privacy.accountant or "as stated"),
    ]
    groups = privacy.per_group or {}
    rows += [(f"ε of a record of {group_text(k)}", epsilon_text(v)) for k, v in groups.items()]
    meaning = (
        f"Whatever anyone learns from {learned_from(privacy)} would have been at most "
        f"{factor_text(privacy.epsilon)} times as likely or unlikely with a neighbouring data set, "
        "up to a failure of "
        "probability δ."
    )
    title = f"Privacy of {PROTECTED[privacy.protects].subject}"
    table = Table(title, ("", "Statement"), tuple(rows), numbers_from=9)
    return Section("Privacy", (Text(meaning), table))


def _fairness(certificate: Certificate) -> Section:
    if not certificate.fairness:
        texts = certificate.remarks or (
            "Nothing is claimed: the model was not evaluated on held-out rows with groups.",
        )
        return Section("Fairness", (Items(tuple(texts)),))
    words = "; ".join(
        f"{claim.notion.replace('_', ' ')} ({claim.scope}): "
        + (f"observed {claim.estimate:.3f}, " if claim.estimate is not None else "")
        + (f"at most {claim.figure}" if claim.informative else "no useful bound")
        for claim in certificate.fairness
    )
    caption = f"Largest difference between two groups. {words[0].upper()}{words[1:]}."
    blocks: list[Block] = [Text(remark) for remark in certificate.remarks]
    blocks += _picture(lambda: bounds_picture(certificate.fairness, caption), caption)
    return Section("Fairness", tuple(blocks))


def _picture(draw: Callable[[], str | None], words: str) -> list[Block]:
    """A picture, or what it shows in words: no label and no font may cost the page."""
    try:
        svg = draw()
    except Exception as error:  # whatever the library makes of it
        return [Text(f"{words} (The picture of it could not be drawn: {type(error).__name__}.)")]
    return [] if svg is None else [Figure(svg, words)]


def _claim(claim: FairnessGuarantee, n_rows: int | None) -> Section:
    notion = claim.notion.replace("_", " ")
    bound = f"at most {claim.figure}" if claim.informative else claim.figure
    observed = "" if claim.estimate is None else f" Observed: {claim.estimate:.3f}."
    blocks: list[Block] = [
        Text(get_notion(claim.notion).meaning),
        Text(
            f"Largest difference in {claim.rates} between any two groups: {bound} "
            f"({claim.scope}; {certainty(claim)}; {population(claim, n_rows)}; {claim.method})."
            f"{observed} {SCOPE_TEXT[claim.scope]}"
        ),
    ]
    rates = group_rates(claim)
    if rates:
        blocks += _rates(claim, rates)
    return Section(f"{notion[0].upper()}{notion[1:]} ({claim.scope})", tuple(blocks), level=3)


def _rates(claim: FairnessGuarantee, rates: tuple[GroupRate, ...]) -> list[Block]:
    noisy = any(item.noisy for item in rates)
    headings = ("Group", "Among", "Successes", "Rows", "Rate", "95 % interval")
    if claim.scope == AVERAGED:
        headings = (*headings[:2], "Sum of probabilities", *headings[3:])
    if noisy:
        headings = (*headings[:2], "Successes (noisy)", "Rows (noisy)", *headings[4:])
    rows = tuple(
        (
            item.group,
            item.stratum,
            f"{item.successes:.6g}",
            f"{item.trials:.6g}",
            "no rows" if item.rate is None else f"{item.rate:.3f}",
            "–"
            if item.low is None or item.high is None
            else f"{rounded_down(item.low)} to {rounded_up(item.high)}",
        )
        for item in rates
    )
    table = Table(f"{claim.rates.capitalize()} by group", headings, rows, numbers_from=2)
    blocks: list[Block] = [table]
    shown = ", ".join(
        f"{item.group}{'' if item.stratum == 'all' else f' ({item.stratum})'} {item.rate:.3f}"
        for item in rates
        if item.rate is not None
    )
    words = f"{claim.rates.capitalize()} by group, {claim.scope}: {shown}."
    blocks += _picture(lambda: rates_picture(rates, claim.rates, words), words)
    if any(item.low is not None for item in rates):
        blocks.append(Text(INTERVAL_NOTE))
    if noisy:
        blocks.append(
            Text(
                "The counts carry noise that protects the held-out rows; intervals and bound allow "
                "for it."
            )
        )
    return blocks


def _coverage(certificate: Certificate) -> Section:
    stated = [] if certificate.privacy is None else [*certificate.privacy.assumptions]
    stated += [text for claim in certificate.fairness for text in claim.assumptions]
    found = tuple(
        dict.fromkeys(
            text[0].upper() + text[1:] for text in stated if text.lower().startswith("coverage")
        )
    )
    if found:
        return Section("Coverage", (Items(found),))
    if any(claim.scope == DEPLOYED for claim in certificate.fairness):
        rows = (
            "their number is private"
            if certificate.n_rows is None
            else f"{certificate.n_rows} rows"
        )
        text = f"The rates count the model's answer to every held-out row with a group: {rows}."
        return Section("Coverage", (Text(text),))
    text = "No rows were evaluated: nothing is said about who gets an answer."
    return Section("Coverage", (Text(text),))


def _model(certificate: Certificate) -> Section:
    versions = ", ".join(f"{k} {v}" for k, v in certificate.library_versions.items())
    rows = (
        ("Model", certificate.model_name or "unnamed"),
        ("Digest of its fitted state", certificate.model_digest),
        ("Certified at (UTC)", certificate.created.removesuffix("+00:00").replace("T", " ")),
        ("Made with", versions),
    )
    how = (
        "A certificate belongs to one model in one state. To check that a file holds this model, "
        "and that the figures follow from what is stored with them: skfairdp verify "
        f"certificate.json model.pkl, or certificate.verify(model). {DIGEST_SHOWS}"
    )
    return Section(
        "Which model", (Table("The certified model", ("", ""), rows, numbers_from=9), Text(how))
    )


def _ledger(ledger: PrivacyLedger) -> Section:
    rows = tuple(map(ledger_cells, ledger.entries()))
    title = f"What was charged to the ledger for the data set “{ledger.data_set}”."
    blocks: list[Block] = [Text(title), Items(tuple(ledger.statements()))]
    if len(rows) > _EXCERPT:
        blocks.append(Text(f"The last {_EXCERPT} of {len(rows)} entries:"))
    if rows:
        blocks.append(Table("Entries of the ledger", HEADINGS, rows[-_EXCERPT:], numbers_from=99))
    return Section("Privacy ledger", tuple(blocks))
