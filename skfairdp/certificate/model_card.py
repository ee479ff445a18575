"""A report as a model card in Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from skfairdp.certificate.blocks import Block, Figure, Figures, Items, Section, Table

__all__ = ["markdown_card"]


def markdown_card(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """Render sections as Markdown; pictures become their words.

    Parameters
    ----------
    title : str
        Heading of the card.
    subtitle : str
        Line under it.
    sections : sequence of Section
        What the card says.

    Returns
    -------
    str
    """
    parts = [f"# {_plain(title)}", _plain(subtitle)]
    for section in sections:
        parts.append(f"{'#' * section.level} {_plain(section.title)}")
        parts += [text for text in map(_block, section.blocks) if text]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Items):
        return "\n".join(f"- {_plain(item)}" for item in block.items)
    if isinstance(block, Figures):
        rows = tuple(figure[:3] for figure in block.figures)
        return _table(("what", "figure", "how"), rows)
    if isinstance(block, Table):
        headings = tuple(name or " " for name in block.headings)
        return f"*{_plain(block.caption)}*\n\n{_table(headings, block.rows)}"
    if isinstance(block, Figure):
        return ""
    return _plain(block.text)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(_plain(cell) for cell in line)} |" for line in lines)


def _plain(text: str) -> str:
    """Keep a value from being read as Markdown or HTML."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
