"""Verdicts on made-up rows, kept for later tests of the same process.

Each fit and each prediction first tries whether this processor's products keep the rows of a block
apart, which takes up to half of the time of a fit on a few hundred rows. The verdict depends on
shapes, on the kinds of layers and loss and on the number of threads, not on numbers: see
``docs/theory/privacy.md``. Modules and losses from elsewhere than this package and torch are tried
each time, and so are all where a test puts other code in the place of what multiplies or clips.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack

from skfairdp.engine import exact_products, row_blocks
from skfairdp.engine.clipping import base, functional, fused, norms
from skfairdp.engine.exact_products import _ByOutputs, _Replaced, is_on
from skfairdp.engine.modules import LinearStack

_VERDICTS: dict[tuple[object, ...], bool] = {}
# All that verdicts are about, by the places in memory that it so keeps.
_CODES: dict[tuple[int, ...], list[object]] = {}
_MULTIPLIES = (torch, nn.functional, exact_products, row_blocks)
_CLIPS = (base, functional, fused, norms, base.Clipper)


def remember(patch: pytest.MonkeyPatch) -> None:
    """Try each kind of block once, in rehearsals and before predictions."""
    from skfairdp.engine import inference
    from skfairdp.engine.rehearsal import _Trial

    patch.setattr(_Trial, "keeps_rows_apart", _of_trials(_Trial.keeps_rows_apart))
    patch.setattr(inference, "_alike_everywhere", _of_answers(inference._alike_everywhere))


def _of_trials(tried: Callable[..., bool]) -> Callable[..., bool]:
    def keeps_rows_apart(trial: Any, of_steps: dict[int, set[int]]) -> bool:
        clipper = trial.serving
        layers = getattr(clipper, "_stack", None) or clipper._module
        loss = clipper._objective
        inside = map(type, getattr(loss, "__dict__", {}).values())
        loss = loss if isinstance(loss, FunctionType) else type(loss)
        parts = layers.linears if isinstance(layers, LinearStack) else [layers]
        if not _ours([loss, *_kinds(parts)]):
            return tried(trial, of_steps)
        kind = (
            type(clipper),
            clipper.arithmetic,
            repr(layers),
            clipper._size,
            loss.__qualname__,
            *inside,
            *_shapes((trial.rows, *trial.targets)),
            repr(of_steps),
            *_trained(parts),
        )
        code = _code(*_CLIPS, *type(clipper).__mro__[:-1])
        return _once(kind, code, lambda: tried(trial, of_steps))

    return keeps_rows_apart


def _of_answers(tried: Callable[..., bool]) -> Callable[..., bool]:
    def alike_everywhere(answer: Any, tables: Sequence[Tensor], rows: int) -> bool:
        function, held = _opened(answer)
        modules = [each for each in held if isinstance(each, nn.Module)]
        known = isinstance(function, FunctionType) and len(modules) == 1
        if not known or not _ours([function, *_kinds(modules)]):
            return tried(answer, tables, rows)
        kind = (function.__code__, repr(modules[0]), *_settings(modules[0]), *_shapes(tables), rows)
        # Where torch's products do not keep rows apart, others are tried next.
        modes = _get_current_function_mode_stack()
        by_outputs = any(isinstance(mode, _ByOutputs) for mode in modes)
        kind = (*kind, by_outputs, is_on(_Replaced), *_trained(modules))
        return _once(kind, _code(), lambda: tried(answer, tables, rows))

    return alike_everywhere


def _opened(answer: Any) -> tuple[Any, Sequence[Any]]:
    """The function that answers, for one row where torch maps it over rows, and what it holds."""
    if isinstance(answer, partial):
        return answer.func, answer.args
    function = inspect.unwrap(answer)
    cells = getattr(function, "__closure__", None) or ()
    return function, [cell.cell_contents for cell in cells]


def _settings(module: nn.Module) -> Iterator[object]:
    """What its text does not show: code and attributes of its parts."""
    for part in module.modules():
        yield type(part).forward
        if not type(part).__module__.startswith("torch."):
            yield repr({name: held for name, held in vars(part).items() if name[0] != "_"})


def _once(kind: tuple[object, ...], code: int, tried: Callable[[], bool]) -> bool:
    kind = (*kind, torch.get_num_threads(), code)
    if kind not in _VERDICTS:
        _VERDICTS[kind] = tried()
    return _VERDICTS[kind]


def _code(*others: object) -> int:
    """Number of what a verdict is about: another one where a test put anything in its place."""
    code = [value for owner in (*_MULTIPLIES, *others) for value in vars(owner).values()]
    return id(_CODES.setdefault(tuple(map(id, code)), code))


def _kinds(modules: Iterable[nn.Module]) -> set[type]:
    return {type(part) for module in modules for part in module.modules()}


def _trained(modules: Iterable[nn.Module]) -> Iterator[tuple[object, ...]]:
    return ((p.dtype, p.requires_grad) for module in modules for p in module.parameters())


def _ours(kinds: Iterable[Any]) -> bool:
    return all(kind.__module__.partition(".")[0] in ("skfairdp", "torch") for kind in kinds)


def _shapes(tables: Iterable[Tensor]) -> Iterator[tuple[object, ...]]:
    return ((table.shape[1:], table.dtype, table.device) for table in tables)
