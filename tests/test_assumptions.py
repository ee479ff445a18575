"""Assumptions of certificates: written once, used, and kept by a place that exists."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from skfairdp.foundation import assumptions
from skfairdp.foundation.assumptions import CERTIFIER, CLOSED_SETS, DEPLOYER, OWNER, PLACES
from tests.sources import nodes_of

PACKAGE = Path(assumptions.__file__).parents[1]
FILES = sorted(PACKAGE.rglob("*.py"))
OTHERS = [path for path in FILES if path.name != "assumptions.py"]
PEOPLE = {OWNER, CERTIFIER, DEPLOYER}


@pytest.mark.parametrize("place", sorted(set(PLACES.values()) - PEOPLE))
def test_a_place_that_keeps_an_assumption_exists(place: str) -> None:
    module, _, name = place.partition(":")
    found = importlib.import_module(module)
    assert not name or hasattr(found, name)


def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def texts(found: Iterable[ast.AST]) -> list[str]:
    """Strings in the code of a file, docstrings among them, with nothing for what is filled in."""
    constants = [node.value for node in found if isinstance(node, ast.Constant)]
    return [value for value in constants if isinstance(value, str)]


def longest_part(sentence: str) -> str:
    """The longest part of a sentence that does not depend on the values that fill it in."""
    return max(re.split(r"\{\w*\}", sentence), key=len)


# The words of a set alone are too common to be looked for.
SENTENCES = {*PLACES, assumptions.SEED, assumptions.READ_OFF} - {assumptions.SET}
PARTS = set(map(longest_part, SENTENCES))


def second_copies(found: Iterable[ast.AST]) -> list[str]:
    return [part for text in texts(found) for part in PARTS if part in text]


def test_a_sentence_is_written_once() -> None:
    assert len(PARTS) > 60
    assert min(map(len, PARTS)) > len(" as recorded")
    assert [(path.name, n) for path in OTHERS for n in second_copies(nodes_of(path))] == []


def test_a_second_copy_would_be_found(tmp_path: Path) -> None:
    copy = tmp_path / "copy.py"
    for sentence in (assumptions.START, assumptions.ARITHMETIC):
        copy.write_text(f"x = f{sentence.replace('{method}', '{print}')!r}", encoding="utf-8")
        assert second_copies(nodes(copy))


def test_every_sentence_is_stated_by_somebody() -> None:
    stated = {
        name: value
        for name, value in (vars(assumptions) | assumptions._FOUND).items()
        if isinstance(value, str) and value in PLACES
    }
    assert set(stated.values()) | set(assumptions.LAST_STEP) == set(PLACES)
    used = {
        node.id if isinstance(node, ast.Name) else node.attr
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    assert set(stated) - used == set()


def test_every_sentence_that_is_named_exists() -> None:
    named = {
        node.attr
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("assumptions", "_says")
    }
    assert len(named) > 20
    assert {name for name in named if not hasattr(assumptions, name)} == set()


def test_the_sets_are_declared_or_read_off() -> None:
    assert len(CLOSED_SETS) == 4
    assert "the set of groups is declared" in CLOSED_SETS
    assert assumptions.closed_sets(labels=False) == (
        "the set of class labels is taken from the rows and public",
    )
