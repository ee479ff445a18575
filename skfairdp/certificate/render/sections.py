"""Sections of a certificate, the same in every format."""

from __future__ import annotations

from collections.abc import Iterator

from skfairdp.certificate.claims import Claims
from skfairdp.certificate.examination import DIGEST_SHOWS
from skfairdp.certificate.facts import PUBLIC, Fact
from skfairdp.certificate.render import group_sections
from skfairdp.certificate.render.elements import KeyFigures, Section, Table
from skfairdp.certificate.render.record_sections import (
    Frontier,
    Watch,
    check_watch,
    of_ledger,
    of_monitor,
    of_path,
)
from skfairdp.certificate.render.templates import PLAIN, arranged
from skfairdp.certificate.sentence import certainty, population
from skfairdp.fairness.guarantee import group_text
from skfairdp.fairness.notions import NOTIONS
from skfairdp.fairness.number_notions import NUMBER_NOTIONS
from skfairdp.fairness.scopes import DEPLOYED
from skfairdp.figures import as_given, epsilon_text, factor_text, significant_up
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.relations import NEIGHBOURS, PROTECTED, neighbours_text, protected_text

_GROUPS = (
    "Fairness to other groups, to groups within the groups named, or to single persons.",
    "Anything about this one model on another population, at a later time, or on rows chosen in "
    "another way.",
)
_USE = (
    "That the model is accurate, or fit for a purpose, or that its use is lawful.",
    "The cost of privacy in accuracy: it could only be shown by a model trained without privacy on "
    "the same rows, which would leave these rows without protection.",
    "That the model was not selected among several by their certificates, unless the assumptions "
    "above state the number of certificates.",
)


def certificate_sections(
    claims: Claims,
    ledger: PrivacyLedger | None = None,
    epsilon: float | None = None,
    tolerance: float | None = None,
    monitor: Watch | None = None,
    template: str = PLAIN,
    path: Frontier | None = None,
) -> tuple[Section, ...]:
    """Collect the sections of a certificate, summary first; arguments of `Certificate.to_html`."""
    facts = claims.facts
    if ledger is not None:
        fits = f"fits in the ledger below: {len(ledger.entries())}"
        facts = (*facts, Fact("alternatives", fits, PUBLIC))
    about = [Table("What it is about", tuple((fact.name, str(fact)) for fact in facts))]
    summary = (_utility(claims), _asked(claims, epsilon, tolerance))
    found = [
        Section(
            "The claim",
            (claims.sentence, _key_figures(claims), *(about if facts else [])),
            tuple(part for part in summary if part.elements),
        ),
        _privacy(claims.privacy),
        group_sections.fairness_section(claims),
        Section("Coverage", (tuple(group_sections.coverage(claims)),), extra=True),
        Section("What this rests on", (), tuple(_assumptions(claims))),
        Section("What is not claimed", (tuple(_not_claimed(claims)),), extra=True),
        _model(claims),
    ]
    if path is not None:
        found.append(of_path(path))
    if ledger is not None:
        found.append(of_ledger(ledger))
    if monitor is not None:
        check_watch(monitor, claims.fairness)
        found.append(of_monitor(monitor))
    kept = [section for section in found if section.elements or section.parts]
    return arranged(kept, template, facts)


def _key_figures(claims: Claims) -> KeyFigures:
    found = [
        (
            f"Largest difference, {group_sections.words_of(claim.notion)}",
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
    """Accuracy of the model or errors of its numbers, compared with one answer for everybody."""
    known = claims.measured
    if known is None:
        return Section("Utility", ())
    text = group_sections.share_text if claims.errors is None else group_sections.number_text
    how = "bought: the counts carry noise" if known.noisy else "public: exact counts"
    rows = tuple((name, *map(text, figures)) for name, *figures in known.measures)
    headings = ("On the held-out rows", "Model", "One answer for everybody")
    table = Table(f"Utility ({how})", rows, headings, numbers_from=1)
    return Section("Utility", (table,), extra=True)


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
    return Section("What was asked for", (tuple(items),) if items else ())


def _privacy(privacy: PrivacyGuarantee | None) -> Section:
    if privacy is None:
        text = "None: the model was trained without noise (epsilon=inf), for comparison."
        return Section("Privacy", (text,))
    if privacy.is_void:
        return Section("Privacy", ("Nothing is promised (ε = ∞).",))
    protected = PROTECTED[privacy.protects]
    meaning = (
        f"Every result of {protected.told_by} would have been at most "
        f"{factor_text(privacy.epsilon)} times as likely with a neighbouring data set, and is at "
        "most as many times as likely as with it, except with probability δ."
    )
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
            for k, v in (privacy.per_group or {}).items()
        ),
    )
    return Section("Privacy", (meaning, Table(f"Privacy of {protected.subject}", facts)))


def _assumptions(claims: Claims) -> Iterator[Section]:
    """Each text once per kind of claim."""
    privacy, fairness = claims.privacy, claims.fairness
    if privacy is not None and privacy.assumptions:
        title = "Why there is no privacy claim" if privacy.is_void else "Privacy assumes"
        yield Section(title, (privacy.assumptions,))
    for scope in dict.fromkeys(claim.scope for claim in fairness):
        texts = (t for claim in fairness if claim.scope == scope for t in claim.assumptions)
        found = tuple(dict.fromkeys(texts))
        if found:
            yield Section(f"Fairness ({scope}) assumes", (found,))


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
    check = Section("How to check it", (how,), extra=True)
    return Section("Which model", (Table("The certified model", facts),), (check,))


def _not_claimed(claims: Claims) -> Iterator[str]:
    """Statements that a reader might wrongly infer from the claims."""
    privacy, fairness = claims.privacy, claims.fairness
    if privacy is None or privacy.is_void:
        yield "Privacy: nothing is promised to the people in the training data."
    else:
        yield from PROTECTED[privacy.protects].not_claimed
        yield from NEIGHBOURS[privacy.adjacency].not_claimed
    if fairness:
        stated = {claim.notion for claim in fairness}
        missing = sorted(set(NOTIONS if stated & set(NOTIONS) else NUMBER_NOTIONS) - stated)
        if missing:
            names = ", ".join(map(group_sections.words_of, missing))
            yield f"Other notions of fairness, which this model may violate: {names}."
        if not any(claim.scope == DEPLOYED and claim.informative for claim in fairness):
            yield "A bound on differences between groups when this model is deployed."
        yield from _GROUPS
    else:
        yield "Fairness: nothing is said about differences between groups."
    yield from _USE
