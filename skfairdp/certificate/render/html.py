"""A certificate as HTML: its own page to be filed, and a piece for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib import resources
from string import Template

from skfairdp.certificate.render.elements import (
    Element,
    KeyFigures,
    Picture,
    Section,
    Table,
    printable,
)
from skfairdp.certificate.render.plot import svg

_INTERVAL = 16  # characters of an interval
_LONG = 25  # rows; longer tables may be cut between rows, and repeat their headings


def html_page(title: str, subtitle: str, sections: Iterable[Section]) -> str:
    """Write a whole document without links to anything; every value is escaped."""
    claim, *others = sections
    return Template(_file("page.html")).substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        style=_file("page.css"),
        body=f"<div class='summary'>{_section(claim, 2, _claim(claim))}</div>"
        + "".join(_section(part, 2) for part in others),
    )


def notebook_html(sections: Iterable[Section]) -> str:
    """Write a piece of a page with its own style: extra sections folded, no pictures."""
    claim, *others = sections
    body = _claim(claim) + "".join(map(_folded, (*claim.parts, *others)))
    style = _file("notebook.css")
    return f"<style>{style}</style><article class='skfairdp-certificate'>{body}</article>"


@cache
def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _claim(section: Section) -> str:
    """The sentence in large letters, with every "symbol = figure" on one line."""
    sentence, *others = section.elements
    assert isinstance(sentence, str)
    whole = r"<span class='whole'>\1</span>"
    text = re.sub(r"([εδ] = [\d.e∞-]*[\d∞])", whole, escape(sentence))
    return f"<p class='claim'>{text}</p>" + "".join(map(_element, others))


def _section(section: Section, level: int, content: str | None = None) -> str:
    if content is None:
        content = "".join(
            _picture(e) if isinstance(e, Picture) else _element(e) for e in section.elements
        )
    parts = "".join(_section(part, level + 1) for part in section.parts)
    return f"<section><h{level}>{escape(section.title)}</h{level}>{content}{parts}</section>"


def _folded(section: Section) -> str:
    content = "".join(map(_element, section.elements)) + "".join(map(_folded, section.parts))
    start = "<details>" if section.extra else "<details open>"
    return f"{start}<summary>{escape(section.title)}</summary>{content}</details>"


def _element(element: Element) -> str:
    if isinstance(element, str):
        return f"<p>{escape(element)}</p>"
    if isinstance(element, tuple):
        return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in element) + "</ul>"
    if isinstance(element, KeyFigures):
        items = "".join(
            f"<li{'' if claimed else ' class=none'}>{escape(name)}<b>{escape(value)}</b>"
            f"<small>{escape(note)}</small></li>"
            for name, value, note, claimed in element.figures
        )
        return f"<ul class='figures'>{items}</ul>"
    return _table(element) if isinstance(element, Table) else ""


def _picture(picture: Picture) -> str:
    """A picture, or its description where a label or font prevents drawing it."""
    try:
        code = svg(picture)
    except Exception as error:  # whatever the library makes of it
        note = f"(The picture of it could not be drawn: {type(error).__name__}.)"
        return f"<p>{escape(f'{picture.words} {note}')}</p>"
    if code is not None:  # labels of groups are in it as texts
        code = "\n".join(map(printable, code.split("\n")))
    caption = f"<figcaption>{escape(picture.words)}</figcaption>"
    return "" if code is None else f"<figure>{code}{caption}</figure>"


def _table(table: Table) -> str:
    def kind(column: int, cell: str = "") -> str:
        if table.numbers_from is not None and column >= table.numbers_from:
            # Such as 0.175 to 0.246: in one line where there is room for it.
            return f" class='number{' short' * (0 < len(cell) <= _INTERVAL)}'"
        return " class='whole'" if 0 < len(cell) <= 10 else ""  # such as 1e-5

    head = "".join(
        # The first column names its rows, on the left, also where the names are figures.
        f"<th scope='col'{kind(i) if i else ''}>{escape(name)}</th>"
        for i, name in enumerate(table.headings)
    )
    body = "".join(
        f"<tr><th scope='row'>{escape(first)}</th>"
        + "".join(f"<td{kind(i, cell)}>{escape(cell)}</td>" for i, cell in enumerate(others, 1))
        + "</tr>"
        for first, *others in table.rows
    )
    kinds = [*(["long"] if len(table.rows) > _LONG else []), *([] if head else ["facts"])]
    # A region that scrolls must be reachable by keyboard, and named.
    return (
        f"<div class='wide' role='region' tabindex='0' aria-label='{escape(table.caption)}'>"
        + (f"<table class='{' '.join(kinds)}'>" if kinds else "<table>")
        + f"<caption>{escape(table.caption)}</caption>"
        + (f"<thead><tr>{head}</tr></thead>" if head else "")
        + f"<tbody>{body}</tbody></table></div>"
    )
