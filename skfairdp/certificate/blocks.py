"""What a report is made of, before it becomes HTML or Markdown."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Block", "Figure", "Figures", "Items", "Section", "Table", "Text"]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Figures:
    """Numbers to be seen first: (name, number, what it is), and whether it is a claim."""

    figures: tuple[tuple[str, str, str, bool], ...]


@dataclass(frozen=True)
class Table:
    """A table; columns from `numbers_from` on hold numbers."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers_from: int = 1


@dataclass(frozen=True)
class Figure:
    """A picture as SVG, and the same in words."""

    svg: str
    caption: str


Block = Text | Items | Figures | Table | Figure


@dataclass(frozen=True)
class Section:
    """A heading with what stands under it; `level` 2 or 3."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2
