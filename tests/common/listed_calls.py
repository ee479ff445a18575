"""Functions of the package that make some kind of call, to be compared with a list."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import skfairdp
from tests.sources import tree_of

PACKAGE = Path(skfairdp.__file__).parent
# File, then reason, then the functions (separated by blanks) that make the call for this reason.
Listed = Mapping[str, Mapping[str, str]]


def calling(
    node: ast.AST, wanted: Callable[[ast.Call], bool], scope: tuple[str, ...] = ()
) -> Iterator[str]:
    """Name the functions that make a listed call, with the classes and functions around them."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if isinstance(child, ast.Call) and wanted(child):
            yield ".".join(scope) or "<module>"
        yield from calling(child, wanted, (*scope, child.name) if named else scope)


def found_in(room: str, wanted: Callable[[ast.Call], bool]) -> dict[str, set[str]]:
    """Functions with a listed call, by file, in a folder or file of the package."""
    place = PACKAGE / room
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    found = {
        file.relative_to(PACKAGE).as_posix(): set(calling(tree_of(file), wanted)) for file in files
    }
    return {name: functions for name, functions in found.items() if functions}


def listed_in(room: str, listed: Listed) -> dict[str, set[str]]:
    """Functions that a list names, by file, in a folder or file of the package."""
    return {
        name: {one for functions in reasons.values() for one in functions.split()}
        for name, reasons in listed.items()
        if name == room or name.startswith(f"{room}/")
    }


def name_of(call: ast.Call) -> str:
    """Name of what is called, without what it belongs to."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))
