"""A certificate as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from skfairdp.certificate.render.elements import Element, Listing, Paragraph, Section, Table


def plain_text(sections: Iterable[Section]) -> str:
    """Write sections line by line, without key figures, wide tables and pictures."""
    claim, *others = sections
    lines = [line for element in claim.elements for line in _lines(element)]
    below = (line for section in (*claim.parts, *others) for line in _section(section))
    return "\n".join([*lines, "", *below])


def _section(section: Section) -> Iterator[str]:
    if section.extra:
        return
    yield section.title
    yield from (f"  {line}" for element in section.elements for line in _lines(element))
    yield from (f"  {line}" for part in section.parts for line in _section(part))


def _lines(element: Element) -> Iterator[str]:
    if isinstance(element, Paragraph):
        yield element.text
    elif isinstance(element, Listing):
        yield from (f"- {item}" for item in element.items)
    elif isinstance(element, Table) and not element.headings:
        yield from map(": ".join, element.rows)
