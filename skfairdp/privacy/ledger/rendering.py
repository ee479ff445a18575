"""A ledger as text, as a table and as a piece of HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

import pandas as pd

from skfairdp.foundation.figures import as_given, rounded_up, significant_down, significant_up
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.records import COMMITTED, DECLARED, RESERVED, RETURNED, Entry, charges
from skfairdp.privacy.ledger.totals import FIXED, covered
from skfairdp.privacy.relations import neighbours_text, protected_text

Budget = tuple[float, float] | None

STYLE = files(__package__).joinpath("ledger.css").read_text(encoding="utf-8")
COUNTED = (
    "the total includes all charges to this ledger for everybody, even where a run assigned each "
    "person to one of two parts by chance; it does not include uses of these rows without this "
    "ledger, such as a score that was computed without noise. Under add-remove a total assumes "
    "that each fit's rows were chosen record by record: folds cut by position move other records "
    "when one is removed"
)
HEADINGS = ("no.", "time (UTC)", "what", "by", "ε", "δ", "relation", "state")


def ledger_frame(entries: Sequence[Entry]) -> pd.DataFrame:
    stated = ("epsilon", "delta", "adjacency", "protects")
    columns = ("number", "activity", "estimator", *stated, "state", "reserved_at", "committed_at")
    rows = [[getattr(e.guarantee if n in stated else e, n, None) for n in columns] for e in entries]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"epsilon": "float64", "delta": "float64"})


def ledger_text(data_set: str, statements: Sequence[str], entries: Sequence[Entry]) -> str:
    """Print a ledger and its `ledger_statements`."""
    lines = [f"Privacy ledger of the data set {data_set!r}"]
    lines += [f"  {line}" for line in statements]
    table = [HEADINGS, *map(ledger_cells, entries)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if entries:
        lines += ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    return "\n".join(lines)


def ledger_page(data_set: str, statements: Sequence[str], entries: Sequence[Entry]) -> str:
    """Render a ledger as HTML with its own style; every value is escaped."""
    said = "".join(f"<li>{escape(line)}</li>" for line in statements)
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in HEADINGS)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in ledger_cells(entry)) + "</tr>"
        for entry in entries
    )
    table = f"<table><caption>Entries</caption><thead><tr>{head}</tr></thead>"
    return (
        f"<style>{STYLE}</style><section class='skfairdp-ledger'>"
        f"<p><b>Privacy ledger of the data set “{escape(data_set)}”</b></p><ul>{said}</ul>"
        + (f"{table}<tbody>{body}</tbody></table>" if entries else "")
        + "</section>"
    )


def ledger_statements(
    budget: Budget, entries: Sequence[Entry], totals: Sequence[PrivacyGuarantee], head: str
) -> list[str]:
    """Say in sentences how much was spent; `head`: of the file, see `PrivacyLedger.head`."""
    lines = [_counted(entries)]
    if budget is not None:
        lines.append(
            f"budget: ε = {as_given(budget[0])}, δ = {as_given(budget[1])}, kept also where a plan "
            "was chosen by looking at earlier releases"
        )
    charged = charges(entries)
    lines += [line for total in totals for line in _stated(total, charged)]
    if budget is not None and charged:
        left = max(0.0, budget[0] - max(total.epsilon for total in totals))
        lines.append(
            f"left of the budget: ε = {significant_down(left, 4)}; less where a plan is chosen by "
            "looking at earlier releases, as the budget counts it"
        )
    if not charged:
        lines.append("nothing was spent")
    if len(totals) > 1:
        lines.append("each total counts all charges, for another promise; they have no sum")
    if entries:
        lines.append(COUNTED)
        number, _, digest = head.partition(":")
        # In parts, so that a narrow page can break the line; `holds` reads it with blanks too.
        parts = " ".join(digest[i : i + 8] for i in range(0, len(digest), 8))
        lines.append(
            "state of the file; note it, to see later whether entries are missing (number of its "
            f"records: their digest): {number}: {parts}"
        )
    return lines


def _counted(entries: Sequence[Entry]) -> str:
    if not entries:
        return "the ledger is empty: nothing was charged to it for this data set"
    numbers = Counter(entry.state for entry in entries)
    committed = numbers[COMMITTED]
    line = f"{committed} committed {'entry' if committed == 1 else 'entries'}"
    if numbers[RESERVED]:
        line += f", and {numbers[RESERVED]} reserved and not finished, charged alike"
    if numbers[RETURNED]:
        line += f", and {numbers[RETURNED]} that ended before a row was used, not charged"
    return line


def _stated(
    total: PrivacyGuarantee, charged: Sequence[tuple[Entry, PrivacyGuarantee]]
) -> Iterator[str]:
    """Sentence about one total, with the reason for it."""
    of = "one charge" if len(charged) == 1 else f"composition of {len(charged)} charges"
    name = f"total, {total.protects} under {total.adjacency}"
    if total.is_void:
        yield f"{name}: ε = ∞ ({of})"
        parts = covered([stated for _, stated in charged], total.adjacency, total.protects)
        for reason in total.assumptions:
            named = [
                f"{entry.number} ({entry.estimator})"
                for (entry, _), part in zip(charged, parts, strict=True)
                if part.is_void and part.assumptions[0] == reason
            ]
            what = "entry" if len(named) == 1 else "entries"
            more = f" and {len(named) - 3} more" if len(named) > 3 else ""
            yield f"∞ because of {what} {', '.join(named[:3])}{more}: {reason}"
    else:
        yield (
            f"{name}: ε = {rounded_up(total.epsilon, 4)}, δ = {significant_up(total.delta)} ({of}; "
            f"{total.accountant or 'one statement'})"
        )
    relation = total.protects, total.adjacency
    yield (
        f"protects {protected_text(*relation)}; "
        f"neighbouring ({total.adjacency}): {neighbours_text(*relation)}"
    )
    if len(charged) > 1 and not total.is_void:
        yield FIXED


def ledger_cells(entry: Entry) -> tuple[str, ...]:
    """Return the cells of an entry's row, as `HEADINGS` names them."""
    stated = entry.guarantee
    what = f"{entry.activity} {entry.ordinal}"
    start = (str(entry.number), entry.reserved_at.removesuffix("+00:00").replace("T", " "), what)
    if entry.activity == DECLARED:
        figures = ("–", "–", "its steps were declared public")
    elif stated is None:
        figures = ("–", "–", "no protected row")
    elif stated.is_void:
        figures = ("∞", "–", "no guarantee")
    else:
        relation = f"{stated.protects}, {stated.adjacency}"
        figures = (rounded_up(stated.epsilon, 4), significant_up(stated.delta), relation)
    return (*start, entry.estimator, *figures, entry.state)


def stays_charged(path: str, entry: Entry) -> str:
    """Say that a reservation counts although its fit did not finish."""
    *_, by, epsilon, delta, _, _ = ledger_cells(entry)
    return (
        f"Entry {entry.number} of the privacy ledger {path!r} ({entry.activity} by {by}, ε = "
        f"{epsilon}, δ = {delta}) stays charged to the data set {entry.data_set!r}: something may "
        "have been released before this error."
    )
