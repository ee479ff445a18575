"""What the sections of a certificate are made of, before they become text, HTML or Markdown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "Element",
    "Facts",
    "KeyFigure",
    "KeyFigures",
    "Listing",
    "Paragraph",
    "Picture",
    "Section",
    "Table",
]


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Listing:
    """A list of sentences."""

    items: tuple[str, ...]


class KeyFigure(NamedTuple):
    """A number to be seen first, and whether it is a claim."""

    name: str
    value: str
    note: str
    claimed: bool


@dataclass(frozen=True)
class KeyFigures:
    """The numbers to be seen first; all of them stand in the sections below, too."""

    figures: tuple[KeyFigure, ...]


@dataclass(frozen=True)
class Facts:
    """Names with what is stated of them."""

    caption: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """A table; columns from `numbers_from` on, if any, hold numbers."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers_from: int | None = None


@dataclass(frozen=True)
class Picture:
    """A picture that `draw` draws on axes of matplotlib, and what it shows in words."""

    words: str
    height: float
    draw: Callable[[Any], object]


Element = Paragraph | Listing | KeyFigures | Facts | Table | Picture


@dataclass(frozen=True)
class Section:
    """A heading with what stands under it; the plain text leaves out what is `extra`."""

    title: str
    elements: tuple[Element, ...]
    parts: tuple[Section, ...] = ()
    extra: bool = False
