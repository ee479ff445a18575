"""A certificate as plain text, and as a model card in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from skfairdp.certificate.render.elements import Element, KeyFigures, Section, Table


def plain_text(sections: Iterable[Section]) -> str:
    """Write sections line by line, without key figures, wide tables and pictures."""
    claim, *others = sections
    lines = [line for element in claim.elements for line in _lines(element)]
    below = (line for section in (*claim.parts, *others) for line in _indented(section))
    return "\n".join([*lines, "", *below])


def _indented(section: Section) -> Iterator[str]:
    if section.extra:
        return
    yield section.title
    yield from (f"  {line}" for element in section.elements for line in _lines(element))
    yield from (f"  {line}" for part in section.parts for line in _indented(part))


def _lines(element: Element) -> Iterator[str]:
    if isinstance(element, str):
        yield element
    elif isinstance(element, tuple):
        yield from (f"- {item}" for item in element)
    elif isinstance(element, Table) and not element.headings:
        yield from map(": ".join, element.rows)


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
    if isinstance(element, str):
        return _plain(element)
    if isinstance(element, tuple):
        return "\n".join(f"- {_plain(item)}" for item in element)
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
