"""Digests of fitted attributes, to detect later changes."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from skfairdp.digests.digest import bind
from skfairdp.digests.state import Recipe
from skfairdp.exceptions import UnboundModelError

_PLAIN = (type(None), bool, int, float, str)
_PYTHON = "python"  # no attribute or parameter is called so, as they end in _ or have a prefix


def bind_each(
    parts: Mapping[str, Any], known: dict[str | int, tuple[Any, str]] | None = None
) -> dict[str, str]:
    """Digest each part of a fitted model, by name.

    For a part that no digest can cover, the reason; "+" after the digest of one that byte code is
    in, and the version of Python that wrote it. `known`: digests of models that are bound together,
    which is filled: of plain parameters by their text, of parts that they share by what they are.
    """
    found = {_PYTHON: platform.python_version()}
    known = {} if known is None else known
    for name, part in parts.items():
        plain = isinstance(part, Recipe) and type(part.of) in _PLAIN
        key = repr(part.of) if plain else id(part)
        if key not in known:
            try:
                bound = bind(part)
                text = bound.digest + "+" * bound.with_code
            except UnboundModelError as error:
                text = str(error)
            known[key] = part, text  # kept, so that no other part has its id
        found[name] = known[key][1]
    return found


def changes(kept: Mapping[str, str] | None, parts: Mapping[str, Any]) -> tuple[str, ...]:
    """List the changes since `bind_each` returned `kept`, in words; empty without changes."""
    if kept is None:
        return ("what its fit left was not noted",)
    now = bind_each(parts)
    found = []
    for name in sorted({*kept, *now} - {_PYTHON}):
        then, here = kept.get(name, "absent"), now.get(name, "absent")
        if not here.startswith("sha256:") and name in now:
            found.append(f"{name} is not known to be what it left: {here}")
        elif then == here:
            continue
        elif then.endswith("+") and here.endswith("+") and kept[_PYTHON] != now[_PYTHON]:
            found.append(
                f"{name} holds your own code, which Python {kept[_PYTHON]} wrote then and Python "
                f"{now[_PYTHON]} cannot compare"
            )
        else:
            found.append(f"{name} is not what it left")
    return tuple(found)
