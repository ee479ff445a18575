"""A report as one HTML file that needs nothing else, to be filed and printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from skfairdp.certificate.blocks import Block, Figure, Figures, Items, Section, Table

__all__ = ["html_report"]

STYLE = """
:root{color-scheme:light}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,"Segoe UI",Roboto,"Liberation Sans",sans-serif;color:#1c2430;
 background:#fff;margin:0}
main{max-width:56rem;margin:0 auto;padding:2rem 1.25rem 3rem}
header{border-bottom:.25rem solid #2f6fab;margin-bottom:1.5rem;padding-bottom:.75rem}
h1{font-size:1.7rem;line-height:1.2;margin:0}
h2{font-size:1.25rem;margin:2rem 0 .5rem;padding-top:.25rem}
h3{font-size:1.05rem;margin:1.4rem 0 .3rem}
h2,h3{break-after:avoid;page-break-after:avoid}
p{margin:.4rem 0}
header p{color:#46505e;margin:.3rem 0 0}
section:first-of-type>h2{margin-top:0}
.claim{font-size:1.2rem;font-weight:600;line-height:1.4;border-left:.3rem solid #2f6fab;
 padding-left:.9rem;break-inside:avoid}
.figures{display:flex;flex-wrap:wrap;gap:.75rem;margin:1.2rem 0 .5rem;padding:0;list-style:none}
.figures li{flex:1 1 13rem;border:1px solid #c5ccd6;border-left:.3rem solid #2f6fab;
 border-radius:.35rem;padding:.6rem .8rem;break-inside:avoid}
.figures li.none{border-left-color:#b36b00}
.figures b{display:block;font-size:1.5rem;line-height:1.3}
.figures small{display:block;color:#46505e;font-size:.85rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;margin:.6rem 0 1rem;font-size:.9rem;
 break-inside:avoid;page-break-inside:avoid}
table.long{break-inside:auto;page-break-inside:auto}
thead{display:table-header-group}
tr{break-inside:avoid;page-break-inside:avoid}
caption{text-align:left;font-weight:600;padding:.2rem 0}
th,td{padding:.3rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid #d5dae1}
thead th{border-bottom:2px solid #8d97a5}
tbody th{font-weight:600}
table.facts th{width:32%}
table.facts td{overflow-wrap:anywhere}
.number{text-align:right;font-variant-numeric:tabular-nums}
.whole{white-space:nowrap}
ul{margin:.4rem 0;padding-left:1.3rem}
li{break-inside:avoid}
figure{margin:.8rem 0 1rem;break-inside:avoid;page-break-inside:avoid}
figure svg{max-width:100%;height:auto;display:block}
figcaption{font-size:.85rem;color:#46505e}
@media print{
 body{font-size:10.5pt}
 main{max-width:none;padding:0}
 .wide{overflow:visible}
 h2{margin-top:1.2rem}
}
@page{size:A4;margin:17mm 16mm}
"""
# Longer tables may be cut between rows, and repeat their headings.
_LONG = 25


def html_report(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """Render sections as a page of its own.

    Parameters
    ----------
    title : str
        Heading of the page.
    subtitle : str
        Line under it.
    sections : sequence of Section
        The first one's first paragraph is the claim.

    Returns
    -------
    str
        A whole HTML document without links to anything; every value is escaped.
    """
    body = "".join(_section(section, first=i == 0) for i, section in enumerate(sections))
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>"
        f"{body}</main></body></html>\n"
    )


def _section(section: Section, *, first: bool) -> str:
    blocks = [_block(block) for block in section.blocks]
    if first:
        claim = re.sub(r"([εδ] = [\d.e∞-]*[\d∞])", r"<span class='whole'>\1</span>", blocks[0])
        blocks[0] = claim.replace("<p>", "<p class='claim'>", 1)
    heading = f"<h{section.level}>{escape(section.title)}</h{section.level}>"
    return f"<section>{heading}{''.join(blocks)}</section>"


def _block(block: Block) -> str:
    if isinstance(block, Items):
        return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in block.items) + "</ul>"
    if isinstance(block, Figures):
        items = "".join(
            f"<li{'' if claimed else ' class=none'}>{escape(name)}<b>{escape(value)}</b>"
            f"<small>{escape(note)}</small></li>"
            for name, value, note, claimed in block.figures
        )
        return f"<ul class='figures'>{items}</ul>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Figure):
        return f"<figure>{block.svg}<figcaption>{escape(block.caption)}</figcaption></figure>"
    return f"<p>{escape(block.text)}</p>"


def _unbroken(cell: str) -> str:
    """Keep short cells, such as 1e-5, on one line."""
    return " class='whole'" if len(cell) <= 10 else ""


def _table(table: Table) -> str:
    number = [
        " class='number'" if column >= table.numbers_from else ""
        for column in range(len(table.headings))
    ]
    head = "".join(
        f"<th scope='col'{kind}>{escape(name)}</th>"
        for name, kind in zip(table.headings, number, strict=True)
    )
    named = all(table.headings)
    body = "".join(
        "<tr>"
        + "".join(
            f"<th scope='row'>{escape(cell)}</th>"
            if column == 0
            else f"<td{number[column] or _unbroken(cell)}>{escape(cell)}</td>"
            for column, cell in enumerate(row)
        )
        + "</tr>"
        for row in table.rows
    )
    kinds = [*(["long"] if len(table.rows) > _LONG else []), *([] if named else ["facts"])]
    kind = f" class='{' '.join(kinds)}'" if kinds else ""
    # A region that scrolls must be reachable by keyboard, and named.
    return (
        f"<div class='wide' role='region' tabindex='0' aria-label='{escape(table.caption)}'>"
        f"<table{kind}><caption>{escape(table.caption)}</caption>"
        + (f"<thead><tr>{head}</tr></thead>" if named else "")
        + f"<tbody>{body}</tbody></table></div>"
    )
