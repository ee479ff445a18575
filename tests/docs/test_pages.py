"""The Python blocks of the documentation run, and print what the page says they print.

A line ``print(...)  # 1.2986`` in a page is a claim: the test runs the block and compares
every printed line with the comments. The blocks of one ``##`` section share their names,
so that a section reads on its own.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import joblib
import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CLAIM = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)


def sections() -> Iterator[tuple[str, list[str]]]:
    for page in sorted(DOCS.rglob("*.md")):
        # Stories need their data sets: tests/docs/test_shell_blocks.py types them.
        if {"results", "stories"} & {*page.relative_to(DOCS).parts}:
            continue
        for section in re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
            blocks = BLOCK.findall(section)
            if blocks:
                title = section.splitlines()[0].lstrip("# ")
                yield f"{page.relative_to(DOCS)}: {title}", blocks


SECTIONS = dict(sections())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* may have learned from the rows")  # a trap shows it
@pytest.mark.parametrize("blocks", SECTIONS.values(), ids=SECTIONS.keys())
def test_blocks_of_a_section_run_and_print_what_they_say(blocks: list[str]) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        printed = io.StringIO()
        # What other processes charge is tests/privacy/ledger's; starting some takes seconds.
        with contextlib.redirect_stdout(printed), joblib.parallel_config("threading"):
            exec(compile(block, "<documentation>", "exec"), names)
        claims = CLAIM.findall(block)
        if claims:
            assert printed.getvalue().splitlines() == claims


def test_the_decision_table_names_mechanisms_of_the_catalogue_and_links_to_it() -> None:
    catalogue = (DOCS / "catalogue.md").read_text(encoding="utf-8")
    mechanisms = set(re.findall(r"^\| `(\w+Classifier)` \|", catalogue, re.MULTILINE))
    guide = (DOCS / "guide.md").read_text(encoding="utf-8")
    choosing = guide.split("## Choosing a mechanism", 1)[1].split("\n## ", 1)[0]
    table = "\n".join(line for line in choosing.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`(\w+Classifier)", table))
    assert len(named) > 10
    assert named - mechanisms == set()
    assert "(catalogue.md)" in choosing


@pytest.mark.parametrize("folder", ["theory", "results", "stories", "traps", "."])
def test_every_page_is_in_the_table_of_contents_of_its_folder(folder: str) -> None:
    contents = (DOCS / folder / "index.md").read_text(encoding="utf-8")
    lines = re.search(r"```{toctree}\n(.*?)```", contents, re.DOTALL)[1].splitlines()
    listed = {re.sub(r".*<(.*)>", r"\1", line.strip()) for line in lines}  # "Title <page>"
    pages = {page.stem for page in (DOCS / folder).glob("*.md")} - {"index"}
    assert pages <= listed


def test_links_between_pages_lead_somewhere() -> None:
    root = DOCS.parent
    for page in [*DOCS.rglob("*.md"), *root.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://", "mailto:")):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize(
    "page", sorted((DOCS / "results").glob("*.md")), ids=lambda page: page.stem
)
def test_a_page_of_results_is_read_in_some_minutes(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").split()) <= 1500


def test_reports_keep_findings_on_the_page_and_tables_beside_it(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.syspath_prepend(DOCS.parent / "examples" / "reproduce")
    import pages

    monkeypatch.setitem(pages.WHOLE, "found", ("How it was",))
    monkeypatch.setitem(pages.WITHOUT_TABLES, "found", ("By data",))
    pages.write_pages(
        tmp_path / "found.md",
        "# Found\n\nIt works, see [here](#by-data) and [there](#all-rows).\n\n"
        "## By data\n\nOn A.\n\n| a |\n| --- |\n| 1 |\n\n"
        "## All rows\n\n| b |\n| --- |\n| 2 |\n\n[How](#how-it-was-measured), [other](x.md).\n\n"
        "## How it was measured\n\n| c |\n| --- |\n",
    )
    page = (tmp_path / "found.md").read_text()
    tables = (tmp_path / "tables" / "found.md").read_text()
    assert "[here](#by-data) and [there](tables/found.md#all-rows)" in page
    assert "On A.\n\n[Table](tables/found.md#by-data)." in page
    assert ("| 1 |" in page, "| 2 |" in page, "| c |" in page) == (False, False, True)
    assert ("| 1 |" in tables, "| 2 |" in tables, "| c |" in tables) == (True, True, False)
    assert "[How](../found.md#how-it-was-measured), [other](../x.md)" in tables
