"""Sections of a certificate about groups: notions, rates, ratios, scores, and the rows counted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from skfairdp.certificate.claims import Claims
from skfairdp.certificate.group_rates import GroupRate, ImpactRatio, group_rates, impact_ratios
from skfairdp.certificate.outcomes import MEASURES, OutcomeRate
from skfairdp.certificate.render.elements import Element, Picture, Section, Table
from skfairdp.certificate.render.plot import (
    FEW_GROUPS,
    draw_bounds,
    draw_calibration,
    draw_numbers,
    draw_rates,
    draw_shares,
    draw_shift,
    height_of_bounds,
)
from skfairdp.certificate.score_counts import BINS, ScoreCounts
from skfairdp.certificate.sentence import certainty, population
from skfairdp.fairness.bounds.gated_answers import ANSWERED_OF_ASKED, answered_of_asked
from skfairdp.fairness.bounds.stored_numbers import cells_of
from skfairdp.fairness.guarantee import FairnessGuarantee, group_text
from skfairdp.fairness.kinds import KINDS
from skfairdp.fairness.number_notions import DISTRIBUTION_GAP
from skfairdp.fairness.scopes import ANSWERED, AVERAGED, DEPLOYED, SCOPES
from skfairdp.foundation.figures import rounded_down, rounded_up

_INTERVALS = (
    "Each interval alone has 95 % confidence; they do not hold together. The bound on the largest "
    "difference is a separate statement."
)
_RATIOS = (
    "Each ratio is relative to the highest rate among the groups of the same columns; “any” means "
    "all values of a column. The intervals of the compared groups hold together. No limit, such as "
    "four fifths, is applied here."
)
_CELLS = (
    "Quantiles and picture are of counts in cells of neighbouring predictions, from which the "
    "bound can be computed again."
)
_TOGETHER = (
    "The intervals hold all together with 95 % confidence. They say what happens to people with "
    "the labels that were recorded; the labels may be biased themselves."
)
_NOISY = (
    "The counts carry noise that protects the held-out rows; intervals and bound allow for it. "
    "Noise can make successes exceed rows; rates are limited to [0, 1]."
)


def fairness_section(claims: Claims) -> Section:
    """Section on the differences between groups, notion by notion."""
    fairness = claims.fairness
    remarks = (*([] if claims.measured is None else [str(claims.measured)]), *claims.remarks)
    # Shares up to each of many numbers are in the table of rates.
    distances = (claim for claim in fairness if claim.notion == DISTRIBUTION_GAP)
    # The last remark of a claim is on its bound, all others on rates up to a threshold.
    of_numbers = {remark for claim in distances for remark in claim.remarks[:-1]}
    if len(of_numbers) > FEW_GROUPS:
        remarks = tuple(remark for remark in remarks if remark not in of_numbers)
    if not fairness and not remarks:
        remarks = ("Nothing is claimed: the model was not evaluated on held-out rows with groups.",)
    elements: list[Element] = [remarks] if remarks else []
    if fairness:
        words = "; ".join(
            f"{words_of(claim.notion)} ({claim.scope}): {_bound(claim)}{_observed(claim)}"
            for claim in fairness
        )
        words = f"Largest difference between two groups, by notion and scope: {words}."
        height, draw = height_of_bounds(fairness), partial(draw_bounds, fairness)
        elements.append(Picture(words, height, draw))
    parts = (_claim(claim, claims.n_rows) for claim in fairness)
    return Section("Fairness", tuple(elements), tuple(parts))


def _claim(claim: FairnessGuarantee, n_rows: int | None) -> Section:
    texts = (
        f"Largest difference of {claim.rates} between any two groups: {_bound(claim)}"
        f"{_observed(claim)} [{claim.scope}; {certainty(claim)}; {population(claim, n_rows)}; "
        f"{claim.method}].",
        f"{words_of(claim.notion).capitalize()} means: {claim.meaning}",
        f"{claim.scope.capitalize()} means: {SCOPES[claim.scope].means}",
    )
    rates = group_rates(claim)
    parts = [_rates(claim, rates)] if rates else []
    if claim.derivation is not None and KINDS[claim.derivation.kind].counts_in_inputs:
        parts.append(_predictions(claim))
    if ratios := impact_ratios(claim):
        parts.append(_ratios(ratios))
    if claim.scope == DEPLOYED and claim.informative:
        words = f"Bound if the people change: {claim.figure} + 2 v at a distance v."
        shift = Picture(words, 2.4, partial(draw_shift, claim))
        parts.append(Section("If the people change", (shift,), extra=True))
    return Section(f"{words_of(claim.notion).capitalize()} ({claim.scope})", texts, tuple(parts))


def _rates(claim: FairnessGuarantee, rates: tuple[GroupRate, ...]) -> Section:
    noisy = any(item.noisy for item in rates)
    successes = "Sum of probabilities" if claim.scope == AVERAGED else "Successes"
    counts = ("Successes (noisy)", "Rows (noisy)") if noisy else (successes, "Rows")
    rows = tuple(
        (
            item.group,
            item.stratum,
            "no rows" if item.rate is None else f"{item.rate:.3f}",
            interval_text(item.low, item.high),
            f"{item.successes:.6g}",
            f"{item.trials:.6g}",
        )
        for item in rates
    )
    with_intervals = any(item.low is not None for item in rates)
    notes = (*([_INTERVALS] if with_intervals else []), *([_NOISY] if noisy else []))
    if claim.notion == DISTRIBUTION_GAP:
        return _shares_up_to(claim, rates, rows, notes)
    title = f"{claim.rates.capitalize()} by group"
    shown = ", ".join(
        f"{item.group}{'' if item.stratum == 'all' else f' ({item.stratum})'} {item.rate:.3f}"
        for item in rates
        if item.rate is not None
    )
    draw = partial(draw_rates, rates, claim.rates)
    picture = Picture(f"{title}, {claim.scope}: {shown}.", 0.9 + 0.32 * len(rates), draw)
    table = _by_group(f"{title}, {claim.scope}", ("Rate", "95 % interval", *counts), rows)
    return Section(title, (table, picture, *notes), extra=True)


def _shares_up_to(
    claim: FairnessGuarantee,
    rates: tuple[GroupRate, ...],
    rows: tuple[tuple[str, ...], ...],
    notes: tuple[str, ...],
) -> Section:
    """Shares of predictions at or below each number, and the number that half of them reach."""
    half: dict[str, str] = {}
    for item in rates:
        if item.rate is not None and item.rate >= 0.5:
            half.setdefault(item.group, item.stratum)
    found = " and ".join(f"at least half of “{g}” have a {stratum}" for g, stratum in half.items())
    middle = (
        f"{found[:1].upper()}{found[1:]}: the medians are there, or a little below. (Estimates.)"
    )
    title = "Shares of predictions at or below each number"
    words = f"{title}, by group: the closer the lines, the more alike the groups."
    picture = Picture(words, 2.8, partial(draw_shares, rates))
    headings = ("Share", "95 % interval", "Predictions counted", "Rows")
    table = _by_group(f"{title}, {claim.scope}", headings, rows)
    said = (middle,) if half else ()
    return Section(title, (*said, picture, table, *notes), extra=True)


def _predictions(claim: FairnessGuarantee) -> Section:
    """Predicted numbers by group, where a claim stores them in cells."""
    cells, labels = cells_of(claim), [group_text(group) for group in claim.groups]
    middles, rows = 0.5 * (cells.first + cells.last), []
    for label, counts, mean in zip(labels, cells.counts.T, cells.means, strict=True):
        n = int(counts.sum())
        at = np.searchsorted(counts.cumsum(), np.array([0.1, 0.5, 0.9]) * n).clip(
            max=len(counts) - 1
        )
        figures = [mean, *middles[at]] if n else [None] * 4
        rows.append((label, *map(number_text, figures), str(n)))
    title = "Predictions by group"
    headings = ("Group", "Mean", "10 % below", "Half below", "90 % below", "Rows")
    table = Table(title, tuple(rows), headings, numbers_from=1)
    shown = "; ".join(f"{label}: mean {mean}" for label, mean, *_ in rows)
    picture = Picture(
        f"{title}, {claim.scope}: {shown}.", 2.8, partial(draw_numbers, cells, labels)
    )
    return Section(title, (table, picture, _CELLS), extra=True)


def number_text(number: float | None) -> str:
    """Print a number of any size; a dash for none."""
    return "–" if number is None else f"{number:.4g}"


def _ratios(ratios: tuple[ImpactRatio, ...]) -> Section:
    rows = tuple(
        (item.group, item.stratum, share_text(item.ratio), interval_text(item.low, item.high))
        for item in ratios
    )
    table = _by_group("Selection rate over the highest one", ("Ratio", "95 % interval"), rows)
    return Section("Impact ratios", (table, _RATIOS), extra=True)


# What pages say of somebody, by the names of measures, which files have.
_SHOWN = dict(
    zip(
        MEASURES,
        (
            "gets the positive outcome",
            "with the positive label gets it (true-positive rate)",
            "with another label gets it (false-positive rate)",
            "is decided as labelled (accuracy)",
        ),
        strict=True,
    )
)


# How pages say that a measure is lower in some groups, in the same order.
_LOWER = dict(
    zip(
        MEASURES,
        (
            "A smaller share of people gets the positive outcome",
            "Of the people with the positive label, a smaller share gets the positive outcome "
            "(true-positive rate)",
            "Of the people with another label, a smaller share gets the positive outcome "
            "(false-positive rate)",
            "A smaller share of decisions agrees with the labels in the records (accuracy)",
        ),
        strict=True,
    )
)


def harmed_section(claims: Claims) -> Section:
    """Say who gets what, and how often decisions are wrong, by group."""
    counted = claims.outcomes
    if counted is None:
        return Section("Who is affected", ())
    rates = counted.rates
    cells = {
        (
            each.group,
            each.measure,
        ): f"{share_text(each.rate)} ({interval_text(each.low, each.high)})"
        for each in rates
    }
    groups, measures = (tuple(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    # Several groups side by side are wider than a page.
    if len(groups) > FEW_GROUPS:
        rows = tuple((g, *(cells.get((g, m), "–") for m in measures)) for g in groups)
        terms = {m: m.partition(" (")[2].rstrip(")") or m for m in measures}
        headings = ("Group", *terms.values())
        shown = {t: _SHOWN[m].partition(" (")[0] for m, t in terms.items() if t != m}
        meant = tuple(f"{term}: somebody {words}." for term, words in shown.items())
    else:
        meant = ()
        rows = tuple((_SHOWN[m], *(cells.get((g, m), "–") for g in groups)) for m in measures)
        headings = ("Somebody", *groups)
    table = Table("Shares of each group", rows, headings, numbers_from=1)
    return Section("Who is affected", (tuple(_apart(rates)), table, meant, _TOGETHER), extra=True)


def _apart(rates: tuple[OutcomeRate, ...]) -> Iterator[str]:
    """Name the groups whose shares are lower where intervals show it, and say where none is."""
    for name in dict.fromkeys(each.measure for each in rates):
        known = [e for e in rates if e.measure == name and e.rate is not None]
        lower = [e for e in known if any(e.high < other.low for other in known)]
        if lower:
            where = ", ".join(f"“{e.group}”" for e in lower)  # a group may be called 0
            by_more = "by more than chance and noise explain"
            yield f"{_LOWER[name]} in {where} than in another group, {by_more}."
    if not any(True for e in rates for o in rates if e.measure == o.measure and e.high < o.low):
        yield "No group has a lower share than another by more than chance and noise explain."


def _by_group(caption: str, figures: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    """A table by group and, for conditional rates, by condition."""
    if all(stratum == "all" for _, stratum, *_ in rows):
        shorter = tuple((group, *others) for group, _, *others in rows)
        return Table(caption, shorter, ("Group", *figures), numbers_from=1)
    return Table(caption, rows, ("Group", "Among", *figures), numbers_from=2)


def interval_text(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{rounded_down(low)} to {rounded_up(high)}"


def coverage(claims: Claims) -> Iterator[str]:
    """Name the people that the figures count, by the counts themselves."""
    for claim in claims.fairness:
        asked = [count for count in claim.counts if count.stratum == ANSWERED_OF_ASKED]
        if claim.scope == ANSWERED and asked:
            given, of = [int(c.successes) for c in asked], [int(c.trials) for c in asked]
            yield f"Coverage: {answered_of_asked([c.group for c in asked], given, of)}."
    if any(claim.scope == DEPLOYED for claim in claims.fairness):
        rows = "their number is private" if claims.n_rows is None else f"{claims.n_rows} rows"
        yield f"The rates count the model's answers to all held-out rows inside the claim ({rows})."
    else:
        yield (
            "No held-out rows were evaluated, so there is no figure about who gets an answer from "
            "the model as it is deployed."
        )


def share_text(share: float | None) -> str:
    """Print a share, or that there is none."""
    return "none" if share is None else f"{share:.3f}"


def _bound(claim: FairnessGuarantee) -> str:
    return f"at most {claim.figure}" if claim.informative else claim.figure


def _observed(claim: FairnessGuarantee) -> str:
    return "" if claim.estimate is None else f", observed {claim.estimate:.3f}"


def words_of(notion: str) -> str:
    return notion.replace("_", " ")


_CALIBRATED = (
    "Of people with a score of 0.7, about 7 of 10 should have the positive label, in every group. "
    "All intervals of the table hold together with 95 % confidence. A line is called too high or "
    "too low only if its whole interval lies outside of its scores."
)
_ALONE = "It is assumed that a person's score depends on that person's row alone."
_ASKED_AGAIN = (
    "The model gave each person the same score when it was asked again, in another order and in "
    "parts. " + _ALONE
)


def scores_section(claims: Claims) -> Section:
    """Say whether scores mean the same in each group, and who gets high ones."""
    scores = claims.scores
    if scores is None:
        return Section("Scores by group", ())
    noisy = scores.count_epsilon is not None
    alone = _ALONE if noisy else _ASKED_AGAIN  # asking again about private rows would reveal one
    table, words = _calibration(scores, noisy), f"{_CALIBRATED} {alone}"
    elements = (tuple(_wrong(scores)), table, _picture(scores), words)
    return Section("Scores by group", elements, (_scoring(scores, noisy),), extra=True)


def _calibration(scores: ScoreCounts, noisy: bool) -> Table:
    rows = tuple(
        (
            line.group,
            # Not a column of its own, which a phone would cut off.
            f"{line.least:g} to {line.most:g}" + f" ({line.verdict})" * ("too" in line.verdict),
            share_text(line.rate if line.informative else None),
            interval_text(line.low, line.high),
            f"{line.rows:.6g}",
        )
        for line in scores.calibration
    )
    counted = "People (noisy)" if noisy else "People"
    headings = ("Group", "Score", "Positive label", "95 % interval", counted)
    return Table("Scores and what came true, by group", rows, headings, numbers_from=2)


def _wrong(scores: ScoreCounts) -> Iterator[str]:
    """Name scores that are shown to be too high or too low."""
    wrong = [line for line in scores.calibration if "too" in line.verdict]
    for line in wrong:
        high = line.verdict == "too high"
        end = f"at most {rounded_up(line.high)}" if high else f"at least {rounded_down(line.low)}"
        yield (
            f"{line.group}: scores of {line.least:g} to {line.most:g} are {line.verdict}; {end} of "
            "such people have the positive label (95 % confidence, for all lines together)."
        )
    if not wrong:
        yield "No group's scores are too high or too low by more than chance and noise explain."


def _picture(scores: ScoreCounts) -> Picture:
    words = "Share with the positive label against the score, by group; the diagonal is ideal"
    n_groups = len({line.group for line in scores.calibration})
    words += ". Intervals are in the table." if n_groups > FEW_GROUPS else "."
    height = 3.4 + 0.25 * n_groups * (n_groups > FEW_GROUPS)
    return Picture(words, height, partial(draw_calibration, scores.calibration))


def _scoring(scores: ScoreCounts, noisy: bool) -> Section:
    edge, share = scores.median
    rows = tuple(
        (
            rate.group,
            share_text(rate.rate),
            interval_text(rate.low, rate.high),
            share_text(rate.ratio),
            interval_text(rate.ratio_low, rate.ratio_high),
        )
        for rate in scores.scoring_rates
    )
    headings = ("Group", "Scoring rate", "95 % interval", "Ratio", "95 % interval")
    table = Table("Share of each group with a score above the middle", rows, headings, 1)
    words = (
        f"“Above the middle” means a score of at least {edge / BINS:g}: {share:.3f} of all these "
        f"people have one. (Of the edges of {BINS} equal bins this one divides them most equally.) "
        "The ratio is over the highest scoring rate of a group. All intervals of the table hold "
        "together with 95 % confidence."
    )
    noise = " (a noisy count; noise can make it negative)" if noisy else ""
    unknown = f"People without a listed group, who are in no line: {scores.unknown:.6g}{noise}."
    return Section("Scoring rates", (table, words, unknown), extra=True)
