"""Sections of a certificate, the same in every format."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from skfairdp.certificate.claims import Claims
from skfairdp.certificate.examination import DIGEST_SHOWS
from skfairdp.certificate.facts import COUNTED, PUBLIC, Fact
from skfairdp.certificate.outcomes import HARDLY_EVER_WRONG
from skfairdp.certificate.registry import answers, check_about
from skfairdp.certificate.render import group_sections
from skfairdp.certificate.render.elements import PLAIN, KeyFigures, Section, Table, arranged
from skfairdp.certificate.render.group_sections import scores_section
from skfairdp.certificate.render.record_sections import (
    Frontier,
    Watch,
    check_watch,
    of_ledger,
    of_monitor,
    of_path,
)
from skfairdp.certificate.sentence import certainty, population
from skfairdp.fairness.guarantee import group_text
from skfairdp.fairness.notions import NOTIONS
from skfairdp.fairness.number_notions import NUMBER_NOTIONS
from skfairdp.fairness.scopes import DEPLOYED
from skfairdp.foundation.assumptions import is_arithmetic
from skfairdp.foundation.figures import (
    as_given,
    epsilon_text,
    factor_text,
    percent_text,
    rounded_up,
    significant_up,
)
from skfairdp.privacy.accounting.tradeoff import (
    FALSE_POSITIVES,
    largest_true_positive_rate,
    posterior,
)
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.relations import NEIGHBOURS, PROTECTED, neighbours_text, protected_text

# Whom a notion compares, and what is counted among them, in words for everybody.
_ALIKE = ", all with the same outcome in the records"
_DECIDED = "Count how many of them get {decision}."
_RIGHT = "Count for how many of them the decision agrees with the records."
_PREDICTED = (
    "Choose a number that predictions were compared with, such as a typical prediction, and count "
    "for how many of them the prediction is at most that number."
)
_COMPARED = {
    "demographic_parity": ("", _DECIDED),
    "equal_opportunity": (", all with the favourable outcome in the records", _DECIDED),
    "equalized_odds": (_ALIKE, _DECIDED),
    "accuracy_parity": ("", _RIGHT),
    "distribution_gap": ("", _PREDICTED),
}
# Of more than two outcomes none is the favourable one.
_COMPARED_OF_SEVERAL = _COMPARED | {"equal_opportunity": (_ALIKE, _RIGHT)}
_EDITED = "EDITED: the contents of the file are not those of its digest. Do not rely on this page."
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
    about: Mapping[str, Any] | None = None,
    *,
    whole: bool = False,
) -> tuple[Section, ...]:
    """Collect the sections of a certificate, summary first; arguments of `Certificate.to_html`.

    `whole`: for a page or card, with what takes a second to compute.
    """
    facts = claims.facts
    if ledger is not None:
        n_fits = sum(entry.activity in ("fit", "search") for entry in ledger.entries())
        what = "fit or search" if n_fits == 1 else "fits or searches"
        fits = f"the ledger below lists {n_fits} {what} on these data"
        facts = (*facts, Fact("alternatives", fits, PUBLIC))
    about = {} if about is None else about
    if about:
        check_about(about)
    sources = "Facts, and where each is from (bought: counted with noise, at a cost in ε)"
    known = Table(sources, tuple((f.name, str(f)) for f in facts))
    summary = (
        _in_plain_words(claims),
        _asked(claims, epsilon, tolerance),
        Section("What it is about", (known,) if facts else ()),
        _utility(claims),
    )
    found = [
        Section(
            "The claim",
            (*[_EDITED] * claims.edited, claims.sentence, _key_figures(claims)),
            tuple(part for part in summary if part.elements),
        ),
        _next(claims, epsilon, tolerance),
        group_sections.harmed_section(claims),
        scores_section(claims),
        _privacy(claims.privacy, attacker=whole),
        group_sections.fairness_section(claims),
        _bias_scenarios(claims, tolerance),
        Section("Coverage", (tuple(group_sections.coverage(claims)),), extra=True),
        Section("Assumptions", (), tuple(_assumptions(claims))),
        Section("Not claimed", (tuple(_not_claimed(claims)),), extra=True),
        _model(claims),
    ]
    found.append(_annex(claims))
    if path is not None:
        found.append(of_path(path))
    if ledger is not None:
        found.append(of_ledger(ledger))
    if monitor is not None:
        check_watch(monitor, claims.fairness)
        found.append(of_monitor(monitor))
    kept = [section for section in found if section.elements or section.parts]
    return arranged(kept, template, facts, () if template == PLAIN else answers(claims, about))


def _bias_scenarios(claims: Claims, limit: float | None) -> Section:
    """Lay out the claims as scenarios of bias: who, what harm, measured how, limited by what."""
    file = claims.monitor_file
    tables = tuple(
        Table(
            f"Bias scenario: {group_sections.words_of(claim.notion)}",
            (
                ("Groups", ", ".join(map(group_text, claim.groups))),
                ("Hazard", f"{claim.rates} of one of these groups below those of another"),
                ("Measure", f"{certainty(claim)}: {claim.figure}"),
                ("Threshold", "not stated" if limit is None else f"at most {as_given(limit)}"),
                ("Mitigation", claims.model_name or "not stated"),
                ("Review trigger", f"alarm of {file}" if file else "not stated"),
            ),
        )
        for claim in claims.fairness
        if claim.scope == DEPLOYED
    )
    return Section("Bias scenarios", tables, extra=True)


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
    if claims.almost_alike:
        found.append(("Decisions", "Nearly constant", "Almost all decisions are alike.", False))
    elif claims.nearly_constant:
        why = "One answer for everybody is right about as often, or more often."
        if claims.errors is not None:
            why = "One prediction for everybody errs about as little, or less."
        found.append(("Quality", "No better than a constant", why, False))
    return KeyFigures(tuple(found))


def _utility(claims: Claims) -> Section:
    """Accuracy of the model or errors of its numbers, compared with one answer for everybody."""
    known = claims.measured
    if known is None:
        return Section("Utility", ())
    text = group_sections.share_text if claims.errors is None else group_sections.number_text
    how = next((f"counts {fact}" for fact in claims.facts if fact.name == COUNTED), "")
    rows = tuple((name, *map(text, figures)) for name, *figures in known.measures)
    headings = ("On the held-out rows", "Model", "One answer for everybody")
    table = Table(f"Utility: {how}" if how else "Utility", rows, headings, numbers_from=1)
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


def _in_plain_words(claims: Claims) -> Section:
    """Say the claim to somebody who knows neither epsilon nor a notion of fairness."""
    said = []
    outcome = next((f.value for f in claims.facts if f.name == "positive outcome"), "")
    decision = f"the favourable decision ({outcome})" if outcome else "any one decision"
    compared = _COMPARED if outcome else _COMPARED_OF_SEVERAL
    for claim in claims.fairness:
        if claim.scope == DEPLOYED and claim.informative and claim.notion in compared:
            people, those = compared[claim.notion]
            figure = rounded_up(claim.bound * 100.0, 1)
            said.append(
                f"Fairness: take 100 people of one group and 100 of another{people}. "
                f"{those.format(decision=decision)} Between any two groups, these counts differ "
                f"by at most {figure} on average. This was measured on people whom the model had "
                "not seen, and holds for people like them: one can be "
                f"{percent_text(claim.confidence_level or 1.0)} sure of it."
            )
    if claims.accuracy is not None:
        (_, model, constant), *_ = claims.accuracy.measures
        said.append(
            f"Quality: the decision agrees with the record for about {100 * (model or 0.0):.1f} of "
            "100 people whom the model had not seen. One decision for everybody would agree for "
            f"about {100 * (constant or 0.0):.1f}."
        )
    if claims.privacy is not None and not claims.privacy.is_void:
        belief = percent_text(rounded(posterior(claims.privacy)))
        said.append(
            "Privacy: random noise hides what any one person's data did to the model. Suppose "
            "somebody wants to know whether a person's data were used, and takes both answers to "
            "be equally likely. After studying the model, and whatever else they know, they can be "
            f"at most {belief} sure."
        )
    return Section("In plain words", (tuple(said),) if said else (), extra=True)


def _next(claims: Claims, epsilon: float | None, tolerance: float | None) -> Section:
    """Say in three lines what is to be done with the model."""
    if not claims.fairness or claims.privacy is None or claims.privacy.is_void:
        lines = ["Do not deploy it on the strength of this page: a claim is missing, see below."]
    elif claims.nearly_constant:
        lines = [
            "Do not deploy it: it is hardly better than one answer for everybody. With more rows, "
            "a larger ε or a larger tolerance the model can learn more."
        ]
    elif claims.accuracy is not None and claims.accuracy.hardly_ever_wrong:
        lines = [f"Do not deploy it yet. {HARDLY_EVER_WRONG}"]
    elif claims.satisfies(epsilon or math.inf, 1.0 if tolerance is None else tolerance):
        lines = ["If you accept its decisions in every group, deploy it and file this page."]
    else:
        lines = [
            "This certificate does not show the requested limits: do not deploy the model as one "
            "that keeps them. More held-out people or a larger tolerance can change that; another "
            "run on these people costs more of their privacy."
        ]
    watched = (
        "the monitor named below" if claims.monitor_file else "skfairdp monitor, or GapMonitor"
    )
    lines += [
        "Watch its decisions: people change, and the claim is about people like those held out "
        f"({watched}).",
        "Certify again if the model, the people or the labels change, and once a year.",
    ]
    return Section("What next", (tuple(lines),), extra=True)


def _attacker(privacy: PrivacyGuarantee) -> Section:
    """Say what the best test for a person's presence can reach."""
    whom = PROTECTED[privacy.protects].unit
    rows = tuple(
        (
            f"{percent_text(alpha)}",
            percent_text(rounded(largest_true_positive_rate(privacy, alpha))),
        )
        for alpha in FALSE_POSITIVES
    )
    headings = ("wrongly suspects, at most", "rightly suspects, at most")
    table = Table("Any test for whether somebody was in the training data", rows, headings, 0)
    words = (
        f"An attacker wants to find out whether a {whom} was among the training data, and knows "
        "all others. The left column is the share of wrong suspicions of a test. The right column "
        "is the largest possible share of right suspicions of that test; without protection it "
        "could be 100 %. An attacker who begins with even odds ends with a certainty of at most "
        f"{percent_text(rounded(posterior(privacy)))}. (All this except for a "
        f"failure of probability δ = {significant_up(privacy.delta)}.)"
    )
    return Section("Limits of an attacker", (words, table), extra=True)


def rounded(share: float) -> float:
    """Round a share up to a tenth of a percent."""
    return min(1.0, math.ceil(share * 1000.0 - 1e-9) / 1000.0)


def _privacy(privacy: PrivacyGuarantee | None, *, attacker: bool) -> Section:
    if privacy is None:
        text = "None: the model was trained without noise (epsilon=inf), for comparison."
        return Section("Privacy", (text,))
    if privacy.is_void:
        return Section("Privacy", ("Nothing is promised (ε = ∞).",))
    protected = PROTECTED[privacy.protects]
    meaning = (
        "Compare these data with any neighbouring data set, as defined below: no result of "
        f"{protected.told_by} is "
        f"more than {factor_text(privacy.epsilon)} times as likely with one of the two as with "
        "the other, except with probability δ."
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
    parts = (_attacker(privacy),) if attacker else ()
    return Section("Privacy", (meaning, Table(f"Privacy of {protected.subject}", facts)), parts)


def _is_technical(text: str) -> bool:
    """Whether an assumption is about random numbers and arithmetic."""
    # The second opening is of older files.
    counted = ("The counts were released", "The counts of the held-out rows")
    return is_arithmetic(text) or text.startswith(counted)


def _annex(claims: Claims) -> Section:
    """Assumptions for experts in floating-point numbers and generators."""
    stated = () if claims.privacy is None else claims.privacy.assumptions
    found = tuple(text for text in stated if _is_technical(text))
    return Section("Annex: random numbers and arithmetic", (found,) if found else ())


def _assumptions(claims: Claims) -> Iterator[Section]:
    """Each text once per kind of claim; technical ones come in the annex."""
    privacy, fairness = claims.privacy, claims.fairness
    if privacy is not None and privacy.assumptions:
        title = "Why there is no privacy claim" if privacy.is_void else "Privacy assumes"
        plain = tuple(text for text in privacy.assumptions if not _is_technical(text))
        yield Section(title, (plain,) if plain else ())
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
        yield "Fairness: no statement about differences between groups."
    yield from _USE
