"""Quotes in print: planned releases, sentences, tables, JSON and HTML."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from skfairdp.foundation.figures import as_given, significant_up
from skfairdp.foundation.html_tables import html_table
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.relations import neighbours_text, protected_text
from skfairdp.receipts.room import LedgerRoom
from skfairdp.records.facts import RowFacts

if TYPE_CHECKING:
    from skfairdp.receipts.quoted import Quote

_WIDTH = 96


@dataclass(frozen=True)
class PlannedRelease:
    """One kind of noisy release of a plan.

    Parameters
    ----------
    name : str
        What is released.
    times : int
        How often.
    noise : {"Gaussian", "discrete Gaussian", "Laplace", "discrete Laplace"}
        Law of the noise.
    noise_std : float
        Standard deviation of the noise on one released number, in the units of the release.
    of_a_record : float
        Most that one record changes the release, in the same units: in L2 norm for Gaussian
        noise, in L1 norm for Laplace noise.
    multiplier : float
        Noise multiplier (Gaussian), or epsilon of one release (Laplace).
    expected_records : float
        Expected records in one release; 0 where the plan does not know it.
    """

    name: str
    times: int
    noise: str
    noise_std: float
    of_a_record: float
    multiplier: float
    expected_records: float


def releases_of(plan: Plan | None) -> Iterator[PlannedRelease]:
    """List every kind of noisy release of a plan, in order."""
    if plan is None:
        return
    for segment in plan.segments:
        for block in segment.blocks:
            if segment.steps == 0:
                continue
            weights = [weight * block.max_norm for weight in block.weights]
            most = max(range(len(weights)), key=lambda cell: weights[cell])
            yield PlannedRelease(
                name=block.name,
                times=segment.steps,
                noise="discrete Gaussian" if plan.exact_noise else "Gaussian",
                noise_std=block.noise_std,
                of_a_record=weights[most],
                multiplier=block.multiplier(most),
                expected_records=float(sum(segment.expected_sizes)),
            )
    for table in plan.counts:
        yield PlannedRelease(
            name=table.name,
            times=table.releases,
            noise="discrete Laplace",
            noise_std=_of_laplace(table.epsilon),
            of_a_record=1.0,
            multiplier=table.epsilon,
            expected_records=0.0,
        )
    for released in plan.sums:
        heaviest = max(released.weights)
        yield PlannedRelease(
            name=released.name,
            times=1,
            noise="Laplace",
            noise_std=math.sqrt(2.0) * released.scale,
            of_a_record=heaviest * released.max_norm,
            multiplier=max(map(released.epsilon, range(len(released.weights)))),
            expected_records=0.0,
        )


def _of_laplace(epsilon: float) -> float:
    """Standard deviation of discrete Laplace noise of a count; 0 without noise."""
    if math.isinf(epsilon):
        return 0.0
    ratio = math.exp(-epsilon)
    return math.sqrt(2.0 * ratio) / (1.0 - ratio)


def statements_of(quote: Quote) -> list[str]:
    """Say what a fit costs, in sentences."""
    said = [f"Quote that the fit of {quote.estimator} kept to."]
    if quote.facts is not None:
        said = [f"Quote for {quote.estimator} on {_records(quote.facts)}: no row was looked at."]
    stated = quote.privacy
    if stated is None:
        said.append("Trains without noise: nothing is protected.")
    elif stated.is_void:
        said.append(f"Promises nothing: {stated.assumptions[0]}")
    else:
        said.append(
            f"Costs ε = {significant_up(stated.epsilon)} at δ = {as_given(stated.delta)}, "
            f"under {stated.adjacency} ({neighbours_text(stated.protects, stated.adjacency)}); "
            f"protects {protected_text(stated.protects, stated.adjacency)}."
        )
    if quote.bought:
        said.append(
            f"ε = {as_given(quote.bought)} of it buys sizes first. The plan is made from them; "
            "the figures below are those for the sizes that were given here."
        )
    if quote.note:
        said.append(quote.note)
    verdict = quote.verdict
    if verdict is not None:
        said.append(verdict.text)
    if quote.ledger is not None:
        said += _of_ledger(quote.ledger)
    return said


def _records(facts: RowFacts) -> str:
    unit = "persons" if facts.unit == "person" else "rows"
    said = f"{facts.n:,} {unit}"
    if facts.n_features is not None:
        said += f" of {facts.n_features:,} features"
    if facts.groups is not None:
        sizes = zip(facts.groups.labels, facts.groups.counts.tolist(), strict=True)
        said += " in groups " + ", ".join(f"{label!r} ({n:,})" for label, n in sizes)
    return said


def _of_ledger(room: LedgerRoom) -> Iterator[str]:
    for total in room.after:
        yield (
            f"Ledger {room.data_set!r} afterwards: ε = {significant_up(total.epsilon)} at δ = "
            f"{as_given(total.delta)} ({total.adjacency}) in all."
        )
    if room.refusal is not None:
        yield f"The ledger would refuse this fit: {room.refusal}"
    elif room.budget is not None and room.left is not None:
        yield (
            f"Of its budget of ε = {as_given(room.budget[0])}, ε = {room.left:.4g} would be left "
            "if no later plan depends on an earlier release."
        )


def table_of(releases: Sequence[PlannedRelease]) -> tuple[list[str], list[list[str]]]:
    """Lay out releases as a table: header, and the cells row by row."""
    header = ["release", "times", "noise", "std of noise", "of a record", "multiplier or ε"]
    header.append("expected records")
    rows = [
        [
            one.name,
            f"{one.times:,}",
            one.noise,
            f"{one.noise_std:.4g}",
            f"{one.of_a_record:.4g}",
            f"{one.multiplier:.4g}",
            f"{one.expected_records:,.1f}" if one.expected_records else "all",
        ]
        for one in releases
    ]
    return header, rows


def document_of(quote: Quote) -> dict[str, Any]:
    """Write a quote down as plain numbers, texts and lists; infinity is the text "inf"."""
    facts, verdict, room = quote.facts, quote.verdict, quote.ledger
    groups = None if facts is None else facts.groups
    return {
        "estimator": quote.estimator,
        "n_records": None if facts is None else facts.n,
        "unit": None if facts is None else facts.unit,
        "groups": None
        if groups is None
        else [[repr(k), n] for k, n in zip(groups.labels, groups.counts.tolist(), strict=True)],
        "privacy": None if quote.privacy is None else quote.privacy.to_dict(),
        "charge": None if quote.charge is None else quote.charge.to_dict(),
        "noise_multiplier": quote.noise_multiplier,
        "bought": quote.bought,
        "releases": [_plain(vars(release)) for release in quote.releases],
        "verdict": None if verdict is None else _plain(vars(verdict)),
        "ledger": None
        if room is None
        else {
            "data_set": room.data_set,
            "budget": room.budget,
            "before": [total.to_dict() for total in room.before],
            "after": [total.to_dict() for total in room.after],
            "left": room.left,
            "refusal": room.refusal,
        },
        "note": quote.note,
        "steps": [step.to_dict() for step in quote.steps],
    }


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    infinite = (k for k, v in values.items() if isinstance(v, float) and math.isinf(v))
    return values | dict.fromkeys(infinite, "inf")


def text_table(
    sentences: Sequence[str], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    """Sentences, one a paragraph, and below them a table where there are rows."""
    lines = [textwrap.fill(sentence, _WIDTH) for sentence in sentences]
    if rows:
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        for cells in (header, *rows):
            first, *others = zip(cells, widths, strict=True)
            numbers = [cell.rjust(width) for cell, width in others]
            lines.append("  ".join([first[0].ljust(first[1]), *numbers]).rstrip())
    return "\n".join(lines)


def html_page(
    sentences: Sequence[str], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> str:
    """Paragraphs and a table, as a fragment of HTML."""
    parts = [f"<p>{escape(sentence)}</p>" for sentence in sentences]
    if rows:
        parts.append(html_table("Releases", header, rows))
    return f"<div>{''.join(parts)}</div>"
