"""Deprecated names: they work for one release, with a warning that names the replacement."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Container, Mapping
from functools import wraps
from typing import Any

from skfairdp.exceptions import warn_user


def moved(
    old: str,
    new: str,
    names: Container[str] | None = None,
    otherwise: Callable[[str], Any] | None = None,
) -> Callable[[str], Any]:
    """Module-level ``__getattr__`` of a room `old` that public names have left for a room `new`.

    `names`: None is all of the new room. `otherwise`: looks up the names that stayed.
    """

    def look_up(name: str) -> Any:
        known = importlib.import_module(new).__all__ if names is None else names
        if name not in known:
            if otherwise is not None:
                return otherwise(name)
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warn_user(
            f"{old}.{name} has moved and goes with the next minor version: import it from {new}.",
            FutureWarning,
        )
        return getattr(importlib.import_module(new), name)

    return look_up


def renamed(
    names: Mapping[str, str], values: Mapping[str, Mapping[Any, Any]] | None = None
) -> Callable[[type], type]:
    """Decorate an estimator whose parameters got other names: the old ones work, with a warning.

    `names`: new names by the old ones. `values`: by old name, values that are called otherwise too.
    """

    def translated(owner: str, given: Mapping[str, Any]) -> dict[str, Any]:
        known = {}
        for name, value in given.items():
            new = names.get(name, name)
            if new in known or (new != name and new in given):
                raise TypeError(f"{owner} got both {new!r} and {name!r}, its old name; give one.")
            if new != name:
                if isinstance(value, str):
                    value = (values or {}).get(name, {}).get(value, value)
                warn_user(
                    f"The parameter {name!r} of {owner} is called {new!r} now; the old name goes "
                    "with the next minor version.",
                    FutureWarning,
                )
            known[new] = value
        return known

    def decorate(cls: Any) -> Any:
        construct, set_params = cls.__init__, cls.set_params

        @wraps(construct)
        def __init__(self: Any, *args: Any, **params: Any) -> None:
            construct(self, *args, **translated(cls.__name__, params))

        @wraps(set_params)
        def replaced(self: Any, **params: Any) -> Any:
            return set_params(self, **translated(cls.__name__, params))

        cls.__init__, cls.set_params = __init__, replaced
        return cls

    return decorate
