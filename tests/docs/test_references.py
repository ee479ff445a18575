"""What pages name in the source exists: tests, and functions that a page prints."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
LISTING = re.compile(r"\{literalinclude\} (\S+)\n:pyobject: (\S+)")


def defined(path: Path) -> set[str]:
    """Functions, classes and methods of a module, by qualified name."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            parts = (part for part in node.body if isinstance(part, ast.FunctionDef))
            found |= {f"{node.name}.{part.name}" for part in parts}
    return found


def named() -> dict[str, set[tuple[Path, str]]]:
    """Files and names in them by the page that names them; an empty name is a whole file."""
    found: dict[str, set[tuple[Path, str]]] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        tests = {(ROOT / path, name or "") for path, name in TEST.findall(text)}
        listings = {((page.parent / path).resolve(), name) for path, name in LISTING.findall(text)}
        if tests | listings:
            found[str(page.relative_to(ROOT))] = tests | listings
    return found


NAMED = named()


@pytest.mark.parametrize("page", NAMED)
def test_tests_and_functions_that_a_page_names_exist(page: str) -> None:
    missing = [
        f"{path.relative_to(ROOT)}::{name}"
        for path, name in sorted(NAMED[page])
        if "NAME" not in path.name and (not path.exists() or (name and name not in defined(path)))
    ]
    assert not missing


def test_the_page_of_one_fit_names_a_test_under_every_step() -> None:
    text = (ROOT / "docs/theory/one_fit.md").read_text(encoding="utf-8")
    steps = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert len(steps) == 10
    assert all(TEST.search(step) for step in steps)
