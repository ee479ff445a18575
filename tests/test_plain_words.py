"""Tests of the language of docstrings, comments, messages and pages."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import nodes_of

ROOT = Path(__file__).parents[1]
OPENING = re.compile(r"(What|How|Where|Which|From|Whose|Who|When|Why)\b")
# Phrases with a plain English word in their place: said, declared, revealed; in addition, next to,
# compared with; is, contains; none of it; this number of; these; your own, of this package;
# clipping norm; have equal weight; without a message; invalid; enough rows; without noise; has the
# cost of; includes its cost; the person of each row.
PHRASES = (
    r"\btold\b", r"\bbesides?\b", r"\bstands? (at|in|beside)\b", r"\bnothing of\b", r"\bso many\b",
    r"\bof such\b(?! people)", r"\bof (ours|yours)\b", r"\bwhoever\b", r"\bthe one door\b",
    r"\ba its own noise\b", r"\bwhat is put\b", r"\bclip norms?\b", r"\bcounts? alike\b",
    r"\bwithout a word\b", r"\bnot what (it|they) should be\b", r"\brows enough\b",
    r"\bin the open\b", r"\bhear of\b", r"\bcosts what\b", r"\bnothing is said\b",
    r"\bpays for itself\b", r"\bwhose row is whose\b", r"\bin any company\b",
)  # fmt: skip
BANNED = re.compile("|".join(PHRASES), re.IGNORECASE)
# Acceptance targets are no results.
TARGETS = re.compile(
    r"\b(to be reached|wanted|missed|goals?|(is|was|were) the aim)\b", re.IGNORECASE
)
# Names in code, and titles.
CODE = re.compile(r"``?[^`]*``?|\]\([^)]*\)")
MODULES = [
    path
    for folder in ("skfairdp", "tests", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
PAGES = [
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "notebooks" not in path.parts),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    ROOT / "skfairdp" / "foundation" / "assumptions.toml",
]


def docstrings(path: Path) -> Iterator[str]:
    """Docstrings of a module, its classes and functions."""
    ours = path.is_relative_to(ROOT / "skfairdp")
    for node in nodes_of(path) if ours else ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def texts(path: Path) -> Iterator[str]:
    """Docstrings; in the package also comments and other strings, which may be messages.

    Nothing, and quickly so, of a file without any phrase.
    """
    if BANNED.search(path.read_text(encoding="utf-8").replace("\n", " ")) is None:
        return
    if "tests" in path.relative_to(ROOT).parts:
        yield from docstrings(path)
        return
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            kind = tokenize.tok_name[token.type]
            if kind in ("COMMENT", "STRING", "FSTRING_MIDDLE") and " " in token.string:
                yield token.string


def found(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Phrases of a text, code left out."""
    return [match[0] for match in pattern.finditer(CODE.sub("", " ".join(text.split())))]


def test_module_docstrings_open_with_a_noun_or_a_verb() -> None:
    first = {path: next(docstrings(path)) for path in MODULES}
    opened = [str(path) for path, text in first.items() if OPENING.match(text)]
    assert len(opened) <= 5, opened


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES}), ids=str)
def test_code_is_described_without_riddles(folder: Path) -> None:
    ours = [path for path in MODULES if path.parent == folder and path != Path(__file__)]
    assert {p.name: f for p in ours if (f := [w for t in texts(p) for w in found(t, BANNED)])} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_written_without_riddles(page: Path) -> None:
    assert found(page.read_text(encoding="utf-8"), BANNED) == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "results").rglob("*.md")), ids=str)
def test_results_state_no_acceptance_targets(page: Path) -> None:
    assert found(page.read_text(encoding="utf-8"), TARGETS) == []


@pytest.mark.parametrize(
    "text",
    ["The model is told the sizes.", "Rows beside\nit.", "So many of them.", "A clip norm of 1."],
)
def test_a_riddle_is_found(text: str) -> None:
    assert found(text, BANNED)
    assert not found(f"`{text}`", BANNED)
