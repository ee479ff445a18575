"""What a certificate says, section by section: every form of it shows these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from skfairdp.certificate.claims import Claims
from skfairdp.certificate.examination import DIGEST_SHOWS
from skfairdp.certificate.facts import PUBLIC, Fact
from skfairdp.certificate.group_rates import GroupRate, ImpactRatio, group_rates, impact_ratios
from skfairdp.certificate.render.elements import (
    Element,
    KeyFigures,
    Listing,
    Paragraph,
    Picture,
    Section,
    Table,
)
from skfairdp.certificate.render.not_claimed import not_claimed
from skfairdp.certificate.render.plot import (
    draw_bounds,
    draw_rates,
    draw_shift,
    height_of_bounds,
)
from skfairdp.certificate.render.record_sections import Watch, check_watch, of_ledger, of_monitor
from skfairdp.certificate.render.templates import PLAIN, arranged
from skfairdp.certificate.sentence import SCOPE_TEXT, certainty, population
from skfairdp.fairness.bounds.gated_answers import ANSWERED_OF_ASKED, coverage_sentence
from skfairdp.fairness.guarantee import FairnessGuarantee, group_text
from skfairdp.fairness.scopes import ANSWERED, AVERAGED, DEPLOYED
from skfairdp.figures import (
    as_given,
    epsilon_text,
    factor_text,
    rounded_down,
    rounded_up,
    significant_up,
)
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.relations import PROTECTED, neighbours_text, protected_text

_INTERVALS = (
    "Each interval holds by itself with 95 % confidence, and not all of them together; the bound "
    "on the largest difference is a statement of its own."
)
_RATIOS = (
    "A ratio is to the highest rate among the groups of the same columns; “any” stands for all "
    "values of a column. The intervals of groups that are compared with each other hold together. "
    "No limit, such as four fifths, is set here."
)
_NOISY = "The counts carry noise that protects the held-out rows; intervals and bound allow for it."


def certificate_sections(
    claims: Claims,
    *,
    ledger: PrivacyLedger | None = None,
    epsilon: float | None = None,
    tolerance: float | None = None,
    monitor: Watch | None = None,
    template: str = PLAIN,
) -> tuple[Section, ...]:
    """Collect what a certificate says, a summary with the claim in one sentence first.

    A ledger adds an excerpt of what its data set has spent; `epsilon` and `tolerance`, the
    largest loss and difference that were asked for, add whether they are kept; a monitor adds what
    it has seen since; a template arranges what comes after the summary.
    """
    privacy, fairness = claims.privacy, claims.fairness
    facts = claims.facts
    if ledger is not None:
        fits = f"{len(ledger.entries())} entries in the ledger below"
        facts = (*facts, Fact("alternatives", fits, PUBLIC))
    about = [Table("What it is about", tuple((fact.name, str(fact)) for fact in facts))]
    summary = (_utility(claims), _asked(claims, epsilon, tolerance))
    found = [
        Section(
            "The claim",
            (Paragraph(claims.sentence), _key_figures(claims), *(about if facts else [])),
            tuple(part for part in summary if part.elements),
        ),
        _privacy(privacy),
        _fairness(claims),
        Section("Coverage", (Listing(tuple(_coverage(claims))),), extra=True),
        Section("What this rests on", (), tuple(_assumptions(privacy, fairness))),
        Section("What is not claimed", (Listing(not_claimed(privacy, fairness)),), extra=True),
        _model(claims),
    ]
    if ledger is not None:
        found.append(of_ledger(ledger))
    if monitor is not None:
        check_watch(monitor, fairness)
        found.append(of_monitor(monitor))
    kept = [section for section in found if section.elements or section.parts]
    return arranged(kept, template, facts)


def _key_figures(claims: Claims) -> KeyFigures:
    found = [
        (
            f"Largest difference, {_words(claim.notion)}",
            f"≤ {claim.figure}" if claim.informative else "No useful bound",
            f"{claim.scope}; {certainty(claim)}; {population(claim, claims.n_rows)}",
            claim.informative,
        )
        for claim in claims.fairness
    ]
    if not claims.fairness:
        remark = next(iter(claims.remarks), "Not evaluated on held-out rows with groups.")
        found.append(("Fairness", "No claim", remark, False))
    privacy = claims.privacy
    if privacy is None or privacy.is_void:
        why = "Trained without noise." if privacy is None else privacy.assumptions[0]
        found.append(("Privacy", "No promise", why, False))
    else:
        delta = f"δ = {significant_up(privacy.delta)}, {privacy.adjacency}"
        whose = f"{delta}; {protected_text(privacy.protects, privacy.adjacency)}"
        found.append(("Privacy loss", f"ε = {epsilon_text(privacy.epsilon)}", whose, True))
    if claims.nearly_constant:
        why = "Almost all decisions are alike, or no better than one answer for everybody."
        found.append(("Decisions", "Nearly constant", why, False))
    return KeyFigures(tuple(found))


def _utility(claims: Claims) -> Section:
    """How often the model is right, beside one answer for everybody."""
    known = claims.accuracy
    if known is None:
        return Section("Utility", ())
    how = "bought: the counts carry noise" if known.noisy else "public: exact counts"
    rows = tuple((name, *map(_share_text, figures)) for name, *figures in known.measures)
    headings = ("On the held-out rows", "Model", "One answer for everybody")
    table = Table(f"Utility ({how})", rows, headings, numbers_from=1)
    return Section("Utility", (table,), extra=True)


def _share_text(share: float | None) -> str:
    return "none" if share is None else f"{share:.3f}"


def _asked(claims: Claims, epsilon: float | None, tolerance: float | None) -> Section:
    items = []
    if epsilon is not None:
        kept = "kept" if claims.satisfies(epsilon) else "NOT kept"
        items.append(f"Privacy loss of at most ε = {as_given(epsilon)}: {kept}.")
    if tolerance is not None:
        shown = "shown" if claims.satisfies(tolerance=tolerance) else "NOT shown"
        items.append(
            f"Differences between groups of at most {as_given(tolerance)}: {shown} by this "
            "certificate for the model as it is deployed."
        )
    return Section("What was asked for", (Listing(tuple(items)),) if items else ())


def _privacy(privacy: PrivacyGuarantee | None) -> Section:
    if privacy is None:
        text = "None: the model was trained without noise (epsilon=inf), for comparison."
        return Section("Privacy", (Paragraph(text),))
    if privacy.is_void:
        return Section("Privacy", (Paragraph("Nothing is promised (ε = ∞)."),))
    protected = PROTECTED[privacy.protects]
    meaning = (
        f"Whatever anyone learns from {protected.told_by} would have been at most "
        f"{factor_text(privacy.epsilon)} times as likely or unlikely with a neighbouring data "
        "set, up to a failure of probability δ."
    )
    groups = privacy.per_group or {}
    facts = (
        ("privacy loss ε, at most", epsilon_text(privacy.epsilon)),
        ("probability of failure δ, at most", significant_up(privacy.delta)),
        ("protects", protected_text(privacy.protects, privacy.adjacency)),
        (
            f"neighbouring data sets ({privacy.adjacency})",
            neighbours_text(privacy.protects, privacy.adjacency),
        ),
        ("accountant", privacy.accountant or "none: as stated"),
        *(
            (f"ε of a {protected.unit} of {group_text(k)}", epsilon_text(v))
            for k, v in groups.items()
        ),
    )
    return Section("Privacy", (Paragraph(meaning), Table(f"Privacy of {protected.subject}", facts)))


def _fairness(claims: Claims) -> Section:
    fairness = claims.fairness
    remarks = claims.remarks
    if claims.accuracy is not None:
        remarks = (str(claims.accuracy), *remarks)
    if not fairness and not remarks:
        remarks = ("Nothing is claimed: the model was not evaluated on held-out rows with groups.",)
    elements: list[Element] = [Listing(remarks)] if remarks else []
    if fairness:
        words = "; ".join(
            f"{_words(claim.notion)} ({claim.scope}): {_bound(claim)}{_observed(claim)}"
            for claim in fairness
        )
        words = f"Largest difference between two groups, by notion and scope: {words}."
        draw = partial(draw_bounds, fairness)
        elements.append(Picture(words, height_of_bounds(fairness), draw))
    parts = tuple(_claim(claim, claims.n_rows) for claim in fairness)
    return Section("Fairness", tuple(elements), parts)


def _claim(claim: FairnessGuarantee, n_rows: int | None) -> Section:
    texts = (
        f"Largest difference of {claim.rates} between any two groups: {_bound(claim)}"
        f"{_observed(claim)} [{claim.scope}; {certainty(claim)}; {population(claim, n_rows)}; "
        f"{claim.method}].",
        f"{claim.notion} means: {claim.meaning}",
        f"{claim.scope} means: {SCOPE_TEXT[claim.scope]}",
    )
    rates = group_rates(claim)
    title = f"{_words(claim.notion).capitalize()} ({claim.scope})"
    parts = [_rates(claim, rates)] if rates else []
    ratios = impact_ratios(claim)
    if ratios:
        parts.append(_ratios(ratios))
    if claim.scope == DEPLOYED and claim.informative:
        words = f"Bound if the people change: {claim.figure} + 2 v at a distance v."
        shift = Picture(words, 2.4, partial(draw_shift, claim))
        parts.append(Section("If the people change", (shift,), extra=True))
    return Section(title, tuple(map(Paragraph, texts)), tuple(parts))


def _rates(claim: FairnessGuarantee, rates: tuple[GroupRate, ...]) -> Section:
    noisy = any(item.noisy for item in rates)
    successes = "Sum of probabilities" if claim.scope == AVERAGED else "Successes"
    counts = ("Successes (noisy)", "Rows (noisy)") if noisy else (successes, "Rows")
    rows = tuple(
        (
            item.group,
            item.stratum,
            "no rows" if item.rate is None else f"{item.rate:.3f}",
            _interval_text(item.low, item.high),
            f"{item.successes:.6g}",
            f"{item.trials:.6g}",
        )
        for item in rates
    )
    title = f"{claim.rates.capitalize()} by group"
    shown = ", ".join(
        f"{item.group}{'' if item.stratum == 'all' else f' ({item.stratum})'} {item.rate:.3f}"
        for item in rates
        if item.rate is not None
    )
    draw = partial(draw_rates, rates, claim.rates)
    picture = Picture(f"{title}, {claim.scope}: {shown}.", 0.9 + 0.32 * len(rates), draw)
    with_intervals = any(item.low is not None for item in rates)
    notes = (*([_INTERVALS] if with_intervals else []), *([_NOISY] if noisy else []))
    table = _by_group(f"{title}, {claim.scope}", ("Rate", "95 % interval", *counts), rows)
    return Section(title, (table, picture, *map(Paragraph, notes)), extra=True)


def _ratios(ratios: tuple[ImpactRatio, ...]) -> Section:
    rows = tuple(
        (item.group, item.stratum, _share_text(item.ratio), _interval_text(item.low, item.high))
        for item in ratios
    )
    table = _by_group("Selection rate over the highest one", ("Ratio", "95 % interval"), rows)
    return Section("Impact ratios", (table, Paragraph(_RATIOS)), extra=True)


def _by_group(caption: str, figures: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    """A table by group and by what a rate is conditioned on, where that is anything."""
    if all(stratum == "all" for _, stratum, *_ in rows):
        shorter = tuple((group, *others) for group, _, *others in rows)
        return Table(caption, shorter, ("Group", *figures), numbers_from=1)
    return Table(caption, rows, ("Group", "Among", *figures), numbers_from=2)


def _interval_text(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{rounded_down(low)} to {rounded_up(high)}"


def _coverage(claims: Claims) -> Iterator[str]:
    """Say whom the figures count, from counts and never from words."""
    for claim in claims.fairness:
        asked = [count for count in claim.counts if count.stratum == ANSWERED_OF_ASKED]
        if claim.scope == ANSWERED and asked:
            given, of = [int(c.successes) for c in asked], [int(c.trials) for c in asked]
            yield coverage_sentence([c.group for c in asked], given, of)
    if any(claim.scope == DEPLOYED for claim in claims.fairness):
        n_rows = claims.n_rows
        rows = "their number is private" if n_rows is None else f"{n_rows} rows"
        yield f"The rates count the model's answer to every held-out row inside the claim: {rows}."
    else:
        yield (
            "No held-out rows were evaluated, so nothing is said about who gets an answer from the "
            "model as it is deployed."
        )


def _assumptions(
    privacy: PrivacyGuarantee | None, fairness: Sequence[FairnessGuarantee]
) -> Iterator[Section]:
    """Each text once per kind of claim."""
    if privacy is not None and privacy.assumptions:
        title = "Why there is no privacy claim" if privacy.is_void else "Privacy assumes"
        yield Section(title, (Listing(privacy.assumptions),))
    for scope in dict.fromkeys(claim.scope for claim in fairness):
        texts = (t for claim in fairness if claim.scope == scope for t in claim.assumptions)
        found = tuple(dict.fromkeys(texts))
        if found:
            yield Section(f"Fairness ({scope}) assumes", (Listing(found),))


def _model(claims: Claims) -> Section:
    facts = (
        ("model", claims.model_name or "unnamed"),
        ("digest of its fitted state", claims.model_digest),
        ("certified at (UTC)", claims.created.removesuffix("+00:00").replace("T", " ")),
        *([("watched by", claims.monitor_file)] if claims.monitor_file else []),
        ("made with", ", ".join(f"{k} {v}" for k, v in claims.library_versions.items())),
    )
    how = (
        "A certificate belongs to one model in one state. To check that a file holds this model, "
        "and that the figures follow from what is stored with them: skfairdp verify "
        f"certificate.json model.pkl, or certificate.verify(model). {DIGEST_SHOWS}"
    )
    check = Section("How to check it", (Paragraph(how),), extra=True)
    return Section("Which model", (Table("The certified model", facts),), (check,))


def _bound(claim: FairnessGuarantee) -> str:
    return f"at most {claim.figure}" if claim.informative else claim.figure


def _observed(claim: FairnessGuarantee) -> str:
    return "" if claim.estimate is None else f", observed {claim.estimate:.3f}"


def _words(notion: str) -> str:
    return notion.replace("_", " ")
