"""Old places of public names: importable for one release, with a warning that says where to go."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable
from typing import Any


def moved(old: str, new: str, names: Iterable[str]) -> Callable[[str], Any]:
    """Module-level ``__getattr__`` of a room that public names have left.

    `old`, `new`: full names of the room that the names were in, and of the one that they are in.
    Result: looks up a moved name in its new room and warns with a FutureWarning.
    """
    known = frozenset(names)

    def look_up(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warnings.warn(
            f"{old}.{name} has moved and goes with the next minor version: import it from {new}.",
            FutureWarning,
            stacklevel=2,
        )
        return getattr(importlib.import_module(new), name)

    return look_up
