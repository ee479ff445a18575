"""Elements of a certificate's sections, before they become text, HTML or Markdown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class KeyFigures:
    """The numbers to be seen first: (name, number, what it is, whether it is a claim)."""

    figures: tuple[tuple[str, str, str, bool], ...]


@dataclass(frozen=True)
class Table:
    """A table, numbers from a column on; without headings it lists names and what they state."""

    caption: str
    rows: tuple[tuple[str, ...], ...]
    headings: tuple[str, ...] = ()
    numbers_from: int | None = None


@dataclass(frozen=True)
class Picture:
    """A picture that ``draw(ax=)`` draws on axes of matplotlib, and what it shows in words."""

    words: str
    height: float
    draw: Callable[..., object]


# A text is a paragraph, a tuple of texts a list of sentences.
Element = str | tuple[str, ...] | KeyFigures | Table | Picture


@dataclass(frozen=True)
class Section:
    """A heading with what stands under it; the plain text leaves out what is `extra`."""

    title: str
    elements: tuple[Element, ...]
    parts: tuple[Section, ...] = ()
    extra: bool = False
