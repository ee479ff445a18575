"""A ledger as text, as a table and as a piece of HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape

import pandas as pd

from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.entry import COMMITTED, Entry
from skfairdp.privacy.ledger.totals import FIXED, covered
from skfairdp.privacy.relations import ADJACENCIES, PROTECTS

__all__ = [
    "HEADINGS",
    "ledger_cells",
    "ledger_frame",
    "ledger_page",
    "ledger_statements",
    "ledger_text",
]

Budget = tuple[float, float] | None

# Colours come from the page around it, so that light and dark pages both stay readable.
STYLE = """
.skfairdp-ledger{font-family:system-ui,sans-serif;max-width:60rem;line-height:1.45}
.skfairdp-ledger table{border-collapse:collapse;font-size:.9rem;color:inherit;margin:.5rem 0}
.skfairdp-ledger th,.skfairdp-ledger td{padding:.2rem .7rem;text-align:left;background:none;
 border-bottom:1px solid rgba(128,128,128,.3);color:inherit;vertical-align:top}
.skfairdp-ledger .skfairdp-number{text-align:right;font-variant-numeric:tabular-nums}
.skfairdp-ledger caption{text-align:left;font-weight:600;padding:.3rem 0}
"""
HEADINGS = ("no.", "time (UTC)", "what", "by", "ε", "δ", "relation", "state")


def ledger_frame(entries: Sequence[Entry]) -> pd.DataFrame:
    """Return one row an entry.

    Parameters
    ----------
    entries : sequence of Entry
        The entries.

    Returns
    -------
    DataFrame
    """
    rows = [
        {
            "number": entry.number,
            "activity": entry.activity,
            "estimator": entry.estimator,
            "epsilon": None if entry.guarantee is None else entry.guarantee.epsilon,
            "delta": None if entry.guarantee is None else entry.guarantee.delta,
            "adjacency": None if entry.guarantee is None else entry.guarantee.adjacency,
            "protects": None if entry.guarantee is None else entry.guarantee.protects,
            "state": entry.state,
            "reserved_at": entry.reserved_at,
            "committed_at": entry.committed_at,
        }
        for entry in entries
    ]
    columns = ["number", "activity", "estimator", "epsilon", "delta", "adjacency", "protects"]
    frame = pd.DataFrame(rows, columns=[*columns, "state", "reserved_at", "committed_at"])
    return frame.astype({"epsilon": "float64", "delta": "float64"})


def ledger_text(
    data_set: str, budget: Budget, entries: Sequence[Entry], totals: Sequence[PrivacyGuarantee]
) -> str:
    """Print a ledger.

    Parameters
    ----------
    data_set : str
        Name of the rows.
    budget : (float, float) or None
        Largest total.
    entries : sequence of Entry
        The entries.
    totals : sequence of PrivacyGuarantee
        Their compositions.

    Returns
    -------
    str
    """
    lines = [f"Privacy ledger of the data set {data_set!r}"]
    lines += [f"  {line}" for line in ledger_statements(budget, entries, totals)]
    table = [HEADINGS, *map(ledger_cells, entries)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if entries:
        lines += [
            "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
    return "\n".join(lines)


def ledger_page(
    data_set: str, budget: Budget, entries: Sequence[Entry], totals: Sequence[PrivacyGuarantee]
) -> str:
    """Render a ledger as HTML with its own style; every value is escaped.

    Parameters
    ----------
    data_set : str
        Name of the rows.
    budget : (float, float) or None
        Largest total.
    entries : sequence of Entry
        The entries.
    totals : sequence of PrivacyGuarantee
        Their compositions.

    Returns
    -------
    str
    """
    said = "".join(
        f"<li>{escape(line)}</li>" for line in ledger_statements(budget, entries, totals)
    )
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
    budget: Budget, entries: Sequence[Entry], totals: Sequence[PrivacyGuarantee]
) -> list[str]:
    """Say in sentences how much was spent.

    Parameters
    ----------
    budget : (float, float) or None
        Largest total.
    entries : sequence of Entry
        The entries.
    totals : sequence of PrivacyGuarantee
        Their compositions.

    Returns
    -------
    list of str
    """
    committed = sum(entry.state == COMMITTED for entry in entries)
    lines = [f"{committed} committed {'entry' if committed == 1 else 'entries'}"]
    if committed < len(entries):
        lines[0] += f", and {len(entries) - committed} reserved and not finished, charged alike"
    if budget is not None:
        lines.append(
            f"budget: ε = {budget[0]:g}, δ = {_number(budget[1])}, kept also where a plan was "
            "chosen by looking at earlier releases"
        )
    charged = [entry.guarantee for entry in entries if entry.guarantee is not None]
    if not charged:
        return [*lines, "nothing was spent"]
    for total in totals:
        count = len(covered(charged, total.adjacency, total.protects))
        of = f"composition of {count} of {len(charged)} charges"
        if total.is_void:
            lines.append(f"total: ε = ∞ ({of}): an entry gives no guarantee")
            continue
        lines.append(
            f"total, {total.protects} under {total.adjacency}: ε = {_epsilon(total.epsilon)}, δ = "
            f"{_number(total.delta)} ({of}; {total.accountant or 'one statement'})"
        )
        shared = total.protects == "record" and total.adjacency in ("zero-out", "replace-one")
        lines.append(
            f"protects {PROTECTS[total.protects]}{' except its group' if shared else ''}; "
            f"neighbouring ({total.adjacency}): {ADJACENCIES[total.adjacency]}"
        )
        if count > 1:
            lines.append(FIXED)
        if count < len(charged):
            lines.append(
                f"{len(charged) - count} of another relation are not in this total, which says "
                "nothing about them"
            )
    return lines


def ledger_cells(entry: Entry) -> tuple[str, ...]:
    """Return the cells of an entry's row, as `HEADINGS` names them.

    Parameters
    ----------
    entry : Entry
        The entry.

    Returns
    -------
    tuple of str
    """
    stated = entry.guarantee
    what = f"{entry.activity} {entry.ordinal}"
    start = (str(entry.number), entry.reserved_at.removesuffix("+00:00").replace("T", " "), what)
    if stated is None:
        figures = ("–", "–", "no protected row")
    elif stated.is_void:
        figures = ("∞", "–", "no guarantee")
    else:
        relation = f"{stated.protects}, {stated.adjacency}"
        figures = (_epsilon(stated.epsilon), _number(stated.delta), relation)
    return (*start, entry.estimator, *figures, entry.state)


def _epsilon(epsilon: float) -> str:
    return f"{math.ceil(epsilon * 1e4 - 1e-9) / 1e4:.4f}"  # never smaller than it is


def _number(value: float) -> str:
    return re.sub(r"e([+-])0+", r"e\1", f"{value:g}")
