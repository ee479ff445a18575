"""Elements of the sections of a certificate, and their order under the headings of an authority.

Elements become text, HTML or Markdown. The templates of authorities are in `templates/`.
"""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skfairdp.certificate.facts import Fact

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


PLAIN = "plain"
NOT_STATED = "not stated"


@cache
def _documents() -> dict[str, dict[str, Any]]:
    files = resources.files(__package__).joinpath("templates").iterdir()
    texts = {file.name.removesuffix(".toml"): file.read_text(encoding="utf-8") for file in files}
    return {name: tomllib.loads(texts[name]) for name in sorted(texts)}


def template_names() -> tuple[str, ...]:
    """Names of the templates, the one without headings of others first."""
    return (PLAIN, *_documents())


def arranged(
    sections: Sequence[Section],
    template: str,
    facts: Sequence[Fact],
    answers: Sequence[tuple[str, str]],
) -> tuple[Section, ...]:
    """Put all sections but the first under the headings of a template.

    `answers`: texts by the names of the templates' questions, in addition to the facts.
    """
    if template not in template_names():
        raise ValueError(f"template={template!r} is not known; use one of {template_names()}.")
    if template == PLAIN:
        return tuple(sections)
    summary, *others = sections
    document = _documents()[template]
    left, known = {part.title: part for part in others}, dict(answers)
    for fact in facts:  # such as alternatives of a search, and of the ledger
        known[fact.name] = "; ".join(filter(None, (known.get(fact.name), str(fact))))
    found = [
        summary,
        Section("How this is arranged", (" ".join(document["note"].split()),), extra=True),
    ]
    for heading in document["heading"]:
        lines = [
            f"{line['ask']}: {known.get(line.get('fact', ''), NOT_STATED).removesuffix('.')}."
            for line in heading.get("line", ())
        ]
        lines += [f"{title}: {NOT_STATED}." for title in heading["holds"] if title not in left]
        parts = tuple(left.pop(title) for title in heading["holds"] if title in left)
        content = (tuple(lines),) if lines else ()
        found.append(Section(heading["name"], content, parts))
    return (*found, *left.values())
