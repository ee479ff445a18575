"""Verdicts of rehearsals, kept for later tests of the same process.

A rehearsal takes up to half of the time of a fit on a few hundred rows. It asks whether this
processor's products keep the rows of a block apart, which depends on shapes, on the kind of layers
and loss and on the number of threads, not on numbers: see ``docs/theory/privacy.md``. Modules and
losses from elsewhere than this package and torch are tried each time.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

_VERDICTS: dict[tuple[object, ...], bool] = {}


def remembered(
    keeps_rows_apart: Callable[[Any, dict[int, set[int]]], bool],
) -> Callable[[Any, dict[int, set[int]]], bool]:
    """Wrap the method of a trial, so that it tries each kind of block once."""

    def verdict(trial: Any, of_steps: dict[int, set[int]]) -> bool:
        kind = _kind(trial, of_steps)
        if kind is None:
            return keeps_rows_apart(trial, of_steps)
        if kind not in _VERDICTS:
            _VERDICTS[kind] = keeps_rows_apart(trial, of_steps)
        return _VERDICTS[kind]

    return verdict


def _kind(trial: Any, of_steps: dict[int, set[int]]) -> tuple[object, ...] | None:
    """Describe what is tried; None where classes and shapes may not say all about it."""
    clipper, tables = trial.serving, (trial.rows, *trial.targets)
    layers = getattr(clipper, "_stack", None) or clipper._module
    loss = clipper._objective
    loss = loss if isinstance(loss, FunctionType) else type(loss)
    inside = map(type, getattr(clipper._objective, "__dict__", {}).values())
    parts = {type(part) for part in getattr(layers, "modules", list)()}
    if any(part.__module__.partition(".")[0] not in ("skfairdp", "torch") for part in (*parts, loss)):
        return None
    return (
        type(clipper),
        clipper.arithmetic,
        repr(layers),
        clipper._size,
        loss.__qualname__,
        *inside,
        *((table.shape[1:], table.dtype, table.device) for table in tables),
        repr(of_steps),
        torch.get_num_threads(),
    )
