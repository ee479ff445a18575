"""Outputs of a trained module for rows of any number."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from torch import Tensor, nn
from torch.func import functional_call, vmap

from skfairdp.engine.exact_products import DispatchMode, by_outputs, exactly, is_on
from skfairdp.engine.modules import goes_row_by_row
from skfairdp.engine.nets import as_tensor
from skfairdp.engine.row_blocks import (
    DEFAULT_ROWS,
    all_alike,
    blocks,
    fill,
    repeated_rows,
    same_bits,
)
from skfairdp.protocol import FOUND_OUT

# Numbers that a row is taken to meet: few repeated rows are tried, as predictions come often.
_WORK = 1 << 13
# Ways to multiply, the fastest first; each is tried where the one before goes by a row's place.
_WAYS: tuple[Callable[[], AbstractContextManager[Any]], ...] = (nullcontext, by_outputs, exactly)


def outputs(module: nn.Module, X: np.ndarray) -> np.ndarray:
    """Compute a module's outputs (n, n_outputs) without touching its state, as `in_blocks` does.

    A module may return one number a row as (n,).
    """
    module.eval()
    with torch.inference_mode():
        rows = as_tensor(X, module)
        kind = None if FOUND_OUT.get() is None else _kind_of(module)
        return in_blocks(lambda part: module(part).unsqueeze(1).flatten(1), rows, kind=kind)


def in_blocks(
    answer: Callable[..., Tensor], *tables: Tensor, kind: Hashable | None = None
) -> np.ndarray:
    """Ask for rows in blocks of a fixed number, the last one filled up with zeros.

    The answer for a row is then the same, to the last bit, whatever the other rows: made-up
    rows are tried first. Where this processor answers them by their place in a block, products
    are computed by outputs, and then exactly; where it still does, each row is asked by itself.

    `kind`: what decides which functions of torch the answer calls, and with which shapes; None:
    unknown. Within `asked_many_times`, made-up rows are tried once for each kind.
    """
    n = len(tables[0])
    # Without rows, a block of zeros gives the shape of an answer.
    some = tables if n else tuple(table.new_zeros(1, *table.shape[1:]) for table in tables)
    filled = [fill(table, DEFAULT_ROWS) for table in some]
    cuts = blocks(len(filled[0]), DEFAULT_ROWS)
    with _products(answer, filled, DEFAULT_ROWS, kind) as apart:
        asked = answer if apart else _in_turn(answer)
        parts = [asked(*(table[part] for table in filled)) for part in cuts]
    return torch.cat(parts)[:n].double().cpu().numpy()


@contextmanager
def _products(
    answer: Callable[..., Tensor],
    tables: Sequence[Tensor],
    rows: int,
    kind: Hashable | None = None,
) -> Iterator[bool]:
    """Multiply in the first of `_WAYS` that answers rows alike at every place, if one does."""
    known = None if kind is None else FOUND_OUT.get()
    key: tuple[Hashable, ...] = (kind, rows)
    if known is not None:  # with all by which torch chooses functions
        key += tuple(_described(table[:1]) for table in tables)
        key += torch.get_num_threads(), is_on(DispatchMode), torch.is_inference_mode_enabled()
        key += torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    # A block of `torch.autocast` is left: answers are those of the module, wherever it is asked.
    device = tables[0].device.type
    reduced = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    with torch.autocast(device, enabled=False) if reduced else nullcontext():
        if known is not None and key in known:
            how, apart = known[key]
        else:
            for how in _WAYS:
                with how():
                    apart = _alike_everywhere(answer, tables, rows)
                if apart:
                    break
            if known is not None:
                known[key] = how, apart
        with how():
            yield apart


def _kind_of(module: nn.Module) -> Hashable | None:
    """Shapes, layers and their settings; None where code of others is called, whatever it does.

    Of weights the numbers play no part: no function of torch is chosen by them.
    """
    parts = list(module.modules())
    if any(type(part).__module__.partition(".")[0] not in ("torch", "skfairdp") for part in parts):
        return None
    try:
        return tuple((type(part), _described(vars(part))) for part in parts)
    except TypeError:  # a hook, say, or another function
        return None


def _described(value: Any) -> Hashable:
    """Describe a setting of a layer, or the form of a tensor; TypeError for anything else."""
    if isinstance(value, Tensor):
        return value.shape, value.stride(), value.dtype, value.device, value.requires_grad
    if isinstance(value, nn.Module):
        return (type(value),)
    if isinstance(value, dict):
        return tuple((_described(name), _described(held)) for name, held in value.items())
    if isinstance(value, list | tuple | set):
        return type(value), tuple(map(_described, value))
    if value is None or isinstance(value, int | float | str | torch.dtype | torch.device):
        return type(value), value
    raise TypeError(
        "A setting of a module must be a number, a text, None, a dtype, a device or a collection "
        f"of these; got {type(value).__name__}."
    )


def _in_turn(answer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Answer for each row of a block by itself, from a copy of its own."""

    def of_block(*tables: Tensor) -> Tensor:
        # With a row of zeros, for a module that squeezes its output.
        each = ([fill(table[i : i + 1], 2) for table in tables] for i in range(len(tables[0])))
        return torch.cat([answer(*pair)[:1] for pair in each])

    return of_block


def _alike_everywhere(answer: Callable[..., Tensor], tables: Sequence[Tensor], rows: int) -> bool:
    """Whether made-up rows get the same answers, to the last bit, in other batches and places."""
    rng = np.random.default_rng(0)

    def asked(block: list[Tensor], shift: int) -> list[Tensor]:
        return [answer(*(table.roll(shift, 0) for table in block)).roll(-shift, 0)]

    for made_up in (rng.standard_normal, partial(rng.integers, 0, 2)):  # codes of an embedding
        block = [torch.from_numpy(made_up((rows, *of.shape[1:]))).to(of) for of in tables]
        try:
            first = asked(block, 0)
        except (IndexError, RuntimeError):
            continue  # it takes no such rows
        codes = made_up is not rng.standard_normal
        repeated = (repeated_rows(of, rows, _WORK, codes=codes) for of in tables)
        if not all(all_alike([answer(*each)]) for each in zip(*repeated, strict=True)):
            return False
        if not all(same_bits(asked(block, shift), first) for shift in (1, rows // 2 + 1)):
            return False
        half = rows // 2
        beside = [torch.cat([of[:half], of[:half]]) for of in block]
        return same_bits([asked(beside, 0)[0][:half]], [first[0][:half]])
    return False


def _with_own_state(module: nn.Module) -> nn.Module:
    """Copy a module, but not its tensors.

    Hooks on it, and tensors that are put in the place of others for a while, are then those of one
    call: another thread that asks the same model does not meet them.
    """
    layers = [*module.modules()]
    kept = (value for layer in layers for value in vars(layer).values())
    tensors = chain(module.parameters(), module.buffers(), kept)
    twin: nn.Module = deepcopy(module, {id(t): t for t in tensors if isinstance(t, Tensor)})
    return twin


def outputs_by_row(module: nn.Module, X: Tensor, rows: int = DEFAULT_ROWS) -> Tensor:
    """Compute outputs as at prediction, each row, of at least one, by itself.

    Whatever the module does, a row's output depends on that row alone, and no part of
    the rows stays on the module: sums over private rows may be formed of it. Stacks of linear
    layers get rows in blocks; other modules get each row alone. `rows`: of a block, a public
    number, see :mod:`skfairdp.engine.row_blocks`.
    """
    module = _with_own_state(module).eval()
    buffers = dict(module.named_buffers())

    def of_rows(part: Tensor) -> Tensor:
        found: Tensor = module(part)
        return found

    def of_row(row: Tensor) -> Tensor:
        state = {name: buffer.clone() for name, buffer in buffers.items()}
        output: Tensor = functional_call(module, state, (row.unsqueeze(0).clone(),))
        return output if output.dim() == 0 else output.squeeze(0)

    with torch.no_grad():
        of_block = of_rows if goes_row_by_row(module) else vmap(of_row, randomness="different")
        filled = fill(X, rows)
        with _products(of_block, [filled], rows) as apart:
            if apart:
                parts = [of_block(filled[part]) for part in blocks(len(filled), rows)]
            else:  # or it cannot be vectorised
                parts = [torch.stack([of_row(row.clone()) for row in X])]
        return torch.cat(parts)[: len(X)]


def features_and_output(
    module: nn.Module, head: nn.Linear, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the inputs of a linear head, a layer of the module, and the module's outputs."""
    caught: dict[str, Tensor] = {}
    place = next(name for name, layer in module.named_modules() if layer is head)
    module = _with_own_state(module).eval()

    def both(part: Tensor) -> Tensor:
        caught["output"] = module(part).unsqueeze(1).flatten(1)
        return torch.cat([caught["output"], caught["input"].reshape(len(part), -1)], dim=1)

    layer = module.get_submodule(place)
    layer.register_forward_pre_hook(lambda _, inputs: caught.update(input=inputs[0]))
    with torch.inference_mode():
        found = in_blocks(both, as_tensor(X, module))
    n_outputs = caught["output"].shape[1]
    return found[:, n_outputs:], found[:, :n_outputs]


def probabilities(output: np.ndarray, link: str) -> np.ndarray:
    """Turn outputs (n, n_outputs) into class probabilities (n, n_classes); rows sum to one.

    `link`: "logit" for one logit of a binary model, "softmax" for a logit a class, "identity" for
    probabilities.
    """
    if link == "logit":
        positive = 0.5 * (1.0 + np.tanh(0.5 * output[:, 0]))
        return np.column_stack([1.0 - positive, positive])
    if link == "softmax":
        return np.asarray(softmax(output, axis=1))
    return np.asarray(output / output.sum(axis=1, keepdims=True))
