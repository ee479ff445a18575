"""A page to read, and one with all its tables.

Every report writes one long text. `write_pages` keeps on the page what a reader meets first and
puts the rest on ``tables/NAME.md``, which the page links to.
"""

from __future__ import annotations

import re
from pathlib import Path

# What stays on the page: sections whole, and sections without their tables.
WHOLE: dict[str, tuple[str, ...]] = {
    "baselines": ("Figures 3 to 5", "How it was measured"),
    "fair_codes": ("What is proved", "How it was measured"),
    "fair_path": ("Adult at equal gaps", "How it was measured"),
    "fairdp_tables": ("How it was measured",),
    "fairpate": ("The comparisons in figures", "How it was measured"),
    "frontier": (),
    "pfld": ("PF-LD against the published", "How it was measured"),
    "representations": (
        "Accuracy against the gap", "Information over", "Colored MNIST", "How it was measured",
        "What differs",
    ),
}  # fmt: skip
WITHOUT_TABLES: dict[str, tuple[str, ...]] = {
    "baselines": ("The private frontier", "Against a threshold"),
    "fair_codes": ("Against the published",),
    "fairdp_tables": ("Why the gap shrinks",),
    "frontier": ("Records protected", "How it was measured"),
}
_TABLE = re.compile(r"(?:^\|.*\n?)+", re.MULTILINE)
_LINK = re.compile(r"(\]\(|href=\")(?!https?:|mailto:)([^)\"]+)([)\"])")


def led_by_picture(page: str) -> str:
    """Move the first picture of a page below its title."""
    found = re.search(r"^!\[[^\n]*\]\([^\n]*\)\n+", page, flags=re.MULTILINE)
    if found is None:
        return page
    title, rest = (page[: found.start()] + page[found.end() :]).split("\n", 1)
    return f"{title}\n\n{found[0].rstrip()}\n{rest}"


def write_pages(path: Path, text: str) -> None:
    """Write a page and the page of its tables.

    Parameters
    ----------
    path : Path
        Of the page; its name says what stays on it. A page without an entry stays whole.
    text : str
        Everything, in Markdown with one title.
    """
    name = path.stem
    if name not in WHOLE:
        path.write_text(led_by_picture(text), encoding="utf-8")
        return
    title = text.split("\n", 1)[0].lstrip("# ")
    head, *sections = re.split(r"^(?=## )", text.split("\n", 1)[1], flags=re.MULTILINE)
    front, behind = [head], []
    for section in sections:
        heading = section.split("\n", 1)[0].lstrip("# ")
        if heading.startswith(WHOLE[name]):
            front.append(section)
            continue
        behind.append(section)
        if heading.startswith(WITHOUT_TABLES.get(name, ("\n",))):
            front.append(_without_tables(section, name))
    note = f"\n\nAll figures: [tables](tables/{name}.md).\n" if behind else ""
    page, tables = f"# {title}\n{front[0].rstrip()}{note}\n" + "".join(front[1:]), "".join(behind)
    here, there = _slugs(page), _slugs(tables)

    def of_page(link: re.Match[str]) -> str:
        target = link[2]
        away = target.startswith("#") and target[1:] not in here and target[1:] in there
        return f"{link[1]}tables/{name}.md{target}{link[3]}" if away else link[0]

    def of_tables(link: re.Match[str]) -> str:
        target = link[2]
        if not target.startswith("#"):
            return f"{link[1]}../{target}{link[3]}"
        return link[0] if target[1:] in there else f"{link[1]}../{name}.md{target}{link[3]}"

    whole = led_by_picture(_LINK.sub(of_page, page).rstrip() + "\n")
    path.write_text(whole, encoding="utf-8")
    if behind:
        beside = path.with_name("tables") / path.name
        beside.parent.mkdir(exist_ok=True)
        beside.write_text(
            f"# {title}: all tables\n\nWhat they show, and how it was measured: "
            f"[{title}](../{name}.md).\n\n{_LINK.sub(of_tables, tables).rstrip()}\n",
            encoding="utf-8",
        )


def _slugs(text: str) -> set[str]:
    return {_slug(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}


def _slug(heading: str) -> str:
    """The anchor that MyST gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _without_tables(section: str, name: str) -> str:
    found = []
    for part in re.split(r"^(?=###? )", section, flags=re.MULTILINE):
        anchor = _slug(part.split("\n", 1)[0].lstrip("# "))
        found.append(_TABLE.sub(f"[Table](tables/{name}.md#{anchor}).\n", part))
    return "".join(found)
