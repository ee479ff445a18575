"""Section on scores: calibration by group, scoring rates, and people of unknown group."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from skfairdp.certificate.claims import Claims
from skfairdp.certificate.render.elements import Picture, Section, Table
from skfairdp.certificate.render.group_sections import interval_text, share_text
from skfairdp.certificate.render.plot import FEW_GROUPS, draw_calibration
from skfairdp.certificate.score_counts import BINS, ScoreCounts
from skfairdp.foundation.figures import rounded_down, rounded_up

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
            share_text(line.rate),
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
        yield "No group's scores are shown to be too high or too low, beyond chance and noise."


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
        f"A score of {edge / BINS:g} is reached by {share:.3f} of all these people, as near to one "
        f"half as edges of {BINS} even bins allow. The ratio is over the highest scoring rate of a "
        "group. All intervals of the table hold together with 95 % confidence."
    )
    unknown = (
        f"People without a listed group, who are in no line: {scores.unknown:.6g}"
        f"{' (a noisy count)' if noisy else ''}."
    )
    return Section("Scoring rates", (table, words, unknown), extra=True)
