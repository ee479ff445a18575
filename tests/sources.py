"""Syntax trees of files: each text is parsed once."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

_parsed = cache(ast.parse)


@cache
def _nodes(text: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_parsed(text)))


def tree_of(path: Path) -> ast.Module:
    """Syntax tree of a file; nothing may change it."""
    tree: ast.Module = _parsed(path.read_text(encoding="utf-8"))
    return tree


def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of the tree, from the outside in."""
    return _nodes(path.read_text(encoding="utf-8"))
