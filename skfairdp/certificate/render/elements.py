"""Elements of the sections of a certificate, before they become text, HTML or Markdown."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Of Unicode: controls, formats (such as marks that turn the direction of text), halves of
# surrogate pairs, and separators of lines and paragraphs.
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def printable(value: Any) -> Any:
    """Write out characters that cannot be seen, in a text or in all texts of a tuple.

    Names of columns, groups and classes come from tables: a NUL would cut a page short, and a line
    feed could pass for a line of the certificate.
    """
    if isinstance(value, tuple):
        return tuple(map(printable, value))
    if not isinstance(value, str):
        return value
    unseen: dict[str, str | int | None] = {
        c: ascii(c)[1:-1] for c in set(value) if unicodedata.category(c) in _UNSEEN
    }
    return value.translate(str.maketrans(unseen))


class Printable:
    """Base class of report elements, whose texts hold no invisible characters."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, printable(value))


@dataclass(frozen=True)
class KeyFigures(Printable):
    """Key figures: (name, number, explanation, whether it is a claim)."""

    figures: tuple[tuple[str, str, str, bool], ...]


@dataclass(frozen=True)
class Table(Printable):
    """A table with numbers from a column on; without headings a list of names and statements."""

    caption: str
    rows: tuple[tuple[str, ...], ...]
    headings: tuple[str, ...] = ()
    numbers_from: int | None = None


@dataclass(frozen=True)
class Picture(Printable):
    """A picture that ``draw(ax=)`` draws on matplotlib axes, with a description in words."""

    words: str
    height: float
    draw: Callable[..., object]


# A text is a paragraph, a tuple of texts a list of sentences.
Element = str | tuple[str, ...] | KeyFigures | Table | Picture


@dataclass(frozen=True)
class Section(Printable):
    """Heading and content; the plain text leaves out what is `extra`."""

    title: str
    elements: tuple[Element, ...]
    parts: tuple[Section, ...] = ()
    extra: bool = False
