"""Text and HTML of quotes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape

_WIDTH = 96


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
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = ("".join(f"<td>{escape(cell)}</td>" for cell in cells) for cells in rows)
        parts.append(
            f"<table><thead><tr>{head}</tr></thead><tbody>"
            + "".join(f"<tr>{cells}</tr>" for cells in body)
            + "</tbody></table>"
        )
    return f"<div>{''.join(parts)}</div>"
