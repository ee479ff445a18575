"""A certificate as a model card in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from skfairdp.certificate.render.elements import (
    Element,
    KeyFigures,
    Listing,
    Paragraph,
    Section,
    Table,
)


def markdown_card(title: str, subtitle: str, sections: Iterable[Section]) -> str:
    """Write sections as Markdown, without pictures."""
    parts = [f"# {_plain(title)}", _plain(subtitle)]
    for section in sections:
        parts += _section(section, 2)
    return "\n\n".join(parts) + "\n"


def _section(section: Section, level: int) -> Iterator[str]:
    found = [*filter(None, map(_element, section.elements))]
    for part in section.parts:
        found += _section(part, level + 1)
    if found:  # not only a picture
        yield from (f"{'#' * level} {_plain(section.title)}", *found)


def _element(element: Element) -> str:
    if isinstance(element, Paragraph):
        return _plain(element.text)
    if isinstance(element, Listing):
        return "\n".join(f"- {_plain(item)}" for item in element.items)
    if isinstance(element, KeyFigures):
        return _table(("what", "figure", "how"), [figure[:3] for figure in element.figures])
    if isinstance(element, Table):
        headings = element.headings or (" ", " ")
        return f"*{_plain(element.caption)}*\n\n{_table(headings, element.rows)}"
    return ""


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines)


def _plain(text: str) -> str:
    """Keep a value from being read as Markdown or HTML."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
