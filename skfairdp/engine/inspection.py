"""Checks of a module before it may see private rows."""

from __future__ import annotations

import gc
import inspect
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from skfairdp.engine.exact_products import DispatchMode
from skfairdp.engine.modules import linear_stack
from skfairdp.engine.optimizers import copy_module
from skfairdp.engine.randomness import SeededDraws
from skfairdp.engine.row_blocks import DEFAULT_ROWS

_CHUNK = 16384


def refuse_mixing_modules(module: nn.Module) -> None:
    """Refuse layers that mix the records of a batch or keep statistics of them.

    Batch normalisation makes one record's output depend on its whole batch, and its
    running statistics are un-noised sums over private rows that would leave with
    the weights. Instance normalisation does the latter when it tracks statistics.
    Dropout acts on each record by itself and is allowed.
    """
    for name, layer in module.named_modules():
        kind = type(layer).__name__
        where = f"The layer {name!r} ({kind})" if name else f"The module {kind}"
        # The bases of torch's norms have no public names, and a list of the public classes would
        # let others through; tests/engine/test_modules.py refuses each kind.
        if isinstance(layer, _BatchNorm):
            raise ValueError(
                f"{where} normalises by statistics of the whole batch, so the gradient of one "
                "record cannot be bounded by itself. Use torch.nn.GroupNorm or LayerNorm "
                "instead."
            )
        if isinstance(layer, _InstanceNorm) and layer.track_running_stats:
            raise ValueError(
                f"{where} keeps running statistics of private rows. Set "
                "track_running_stats=False or use torch.nn.GroupNorm instead."
            )
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            _refuse_embedding(layer, where)


def _refuse_embedding(layer: nn.Embedding | nn.EmbeddingBag, where: str) -> None:
    """Refuse settings under which records share the tensor of their gradients."""
    if layer.max_norm is not None:
        raise ValueError(
            f"{where} has max_norm={layer.max_norm!r}: it changes its weights in the forward pass, "
            "by the codes of private rows. Set max_norm=None."
        )
    if layer.sparse:
        raise ValueError(
            f"{where} has sparse=True: sparse gradients cannot be clipped record by record. Set "
            "sparse=False."
        )


def refuse_moved_state(module: nn.Module, row_shape: tuple[int, ...]) -> None:
    """Run a module in training mode on made-up rows; refuse one that changes its own state.

    Per-record gradients are taken of copies, so a buffer that a forward pass moves would stay
    where it was in training, or would carry un-noised traits of private rows.
    """
    stack = linear_stack(module)
    if stack is not None and stack.holds:
        return
    probe = copy_module(module).train()
    reference = next(probe.parameters())
    before = {name: value.clone() for name, value in _state(probe)}
    shape = (3, *row_shape)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad(), SeededDraws(0):
        made_up = (torch.zeros(shape), torch.ones(shape), torch.randn(shape, generator=generator))
        for rows in made_up:
            try:
                probe(rows.to(reference))
            except (IndexError, RuntimeError, TypeError, AttributeError, ValueError):
                continue  # wants other values, or draws what another check refuses
    moved = [name for name, value in _state(probe) if _differs(value, before.get(name))]
    if moved:
        raise ValueError(
            f"The forward pass of the module {type(module).__name__} changes its state in training "
            f"mode: {', '.join(moved)}. Such state is neither clipped nor noised, so it cannot "
            "follow private rows. Use layers whose forward pass changes nothing: "
            "torch.nn.utils.parametrizations.weight_norm for spectral_norm, torch.nn.GroupNorm for "
            "running statistics."
        )


def _state(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from chain(module.named_buffers(), module.named_parameters())


def _differs(value: torch.Tensor, before: torch.Tensor | None) -> bool:
    if before is None or value.shape != before.shape:
        return True
    return not torch.equal(value.nan_to_num(), before.nan_to_num())


class _Made(DispatchMode):
    """Mode that remembers, by weak references, every tensor that a module is given or makes."""

    def __init__(self, rows: torch.Tensor) -> None:
        super().__init__()
        self._references = [weakref.ref(rows)]

    def _answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = func(*args, **kwargs)
        several = found if isinstance(found, list | tuple) else [found]
        self._references += [weakref.ref(t) for t in several if isinstance(t, torch.Tensor)]
        return found

    def left(self) -> list[torch.Tensor]:
        """Tensors that something still refers to."""
        return [tensor for each in self._references if (tensor := each()) is not None]


def refuse_kept_rows(module: nn.Module, row_shape: tuple[int, ...]) -> None:
    """Run a module on made-up rows; refuse one that keeps a trace of them when it has answered.

    Rows that a module assigns to itself, or adds to a list, would leave with the model, or stay
    in the process. Two copies see different rows: what is equal in both, such as a mask or a
    count of calls, follows from no row.
    """
    kind, reference = type(module).__name__, next(module.parameters())
    shape, generator = (2, *row_shape), torch.Generator().manual_seed(0)
    codes = torch.zeros(shape), torch.ones(shape)  # for a module that wants whole numbers
    numbers = torch.zeros(shape), torch.randn(shape, generator=generator)
    for mode, made_up in ((True, numbers), (False, numbers), (True, codes), (False, codes)):
        probes = [copy_module(module).train(mode) for _ in made_up]
        try:
            with torch.no_grad():
                made = [_watched(*each, reference) for each in zip(probes, made_up, strict=True)]
        except (IndexError, RuntimeError, TypeError, AttributeError, ValueError):
            continue  # wants other values, or draws what another check refuses
        named = sorted(_told_apart(*probes))
        if not named and not _left_alike(made):
            gc.collect()  # what refers to itself is not kept
        if named or not _left_alike(made):
            where = f"in {', '.join(named)}" if named else "outside itself, as in a list"
            raise ValueError(
                f"The module {kind} keeps what it computed of its rows {where}, where it would "
                "outlive training and be stored with the model. Let forward() return what is "
                "needed, and keep nothing between calls."
            )


def _watched(module: nn.Module, rows: torch.Tensor, like: torch.Tensor) -> _Made:
    """Tensors that a module is given, and makes, while it answers."""
    given = rows.to(like, copy=True)
    made = _Made(given)
    with SeededDraws(0), made:
        module(given)
    return made


def _left_alike(made: list[_Made]) -> bool:
    """Whether the tensors that are left of two runs hold the same numbers."""
    return all(_alike(a, b) for a, b in zip_longest(*(each.left() for each in made)))


def _told_apart(one: nn.Module, other: nn.Module) -> Iterator[str]:
    """Names of attributes in which two copies of a module differ."""
    for (place, first), second in zip(one.named_modules(), other.modules(), strict=True):
        held = vars(second)
        for name, value in vars(first).items():
            if not _alike(value, held.get(name)):
                yield f"{place}.{name}".lstrip(".")


def _alike(one: Any, other: Any, around: tuple[int, ...] = ()) -> bool:
    """Whether two values hold the same numbers and texts; of other objects nothing is known.

    `around`: containers that hold `one`. One that holds itself adds nothing.
    """
    if id(one) in around:
        return True
    within = (*around, id(one))
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return not _differs(one.detach(), other.detach())
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            _alike(v, other[k], within) for k, v in one.items()
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_alike(a, b, within) for a, b in pairs)
    if type(one) is not type(other):
        return False
    return not isinstance(one, bool | int | float | complex | str | bytes) or one == other


def refuse_unstable_rows(module: nn.Module, row_shape: tuple[int, ...]) -> None:
    """Run a module on made-up rows, so that nothing about it shows up on private ones.

    An error of torch quotes the shapes of its inputs, and the size of a private batch
    is secret; here the batches are public. A module whose output for a row changes
    with the other rows would let one record change the predictions of all.
    """
    if torch.is_autocast_enabled(next(module.parameters()).device.type):
        raise ValueError(
            "torch.autocast is switched on, which leaves the precision of every product to torch. "
            "Leave its block before calling fit, and choose the module's dtype instead."
        )
    probe = _as_at_prediction(module)
    kind = type(module).__name__
    reference = next(probe.parameters())
    with torch.no_grad(), SeededDraws(0):
        for n in (2, 3):
            zeros = torch.zeros((n, *row_shape), dtype=reference.dtype, device=reference.device)
            try:
                output = probe(zeros)
            except Exception as error:  # whatever the module raises: these rows are public
                raise ValueError(
                    f"The module {kind} fails on {n} rows of zeros of shape {tuple(row_shape)}: "
                    f"{error}. {_how_to_take(module, row_shape)}"
                ) from error
            if isinstance(output, torch.Tensor) and output.shape[:1] != (n,):
                raise ValueError(
                    f"The module {kind} returned shape {tuple(output.shape)} for {n} rows; it must "
                    "return one output a row."
                )
        if linear_stack(module) is not None:
            return
        refuse_moved_state(module, row_shape)
        refuse_kept_rows(module, row_shape)
        generator = torch.Generator().manual_seed(0)
        rows = torch.randn((3, *row_shape), generator=generator).to(reference)
        try:
            together, again = probe(rows.clone()), probe(rows.clone())
            apart = torch.cat([probe(row.clone().unsqueeze(0)).reshape(1, -1) for row in rows])
            together, again = together.reshape(3, -1), again.reshape(3, -1)
        except (IndexError, RuntimeError, TypeError, AttributeError):
            return  # wants other values, e.g. codes: then zeros were all that can be tried
        random = not torch.equal(together, again)
    if not random and not torch.allclose(together, apart, rtol=1e-2, atol=1e-3, equal_nan=True):
        raise ValueError(
            f"The module {kind} mixes the records of a batch: its output for a row changes with "
            "the other rows. Let every row be processed by itself."
        )


def _how_to_take(module: nn.Module, row_shape: tuple[int, ...]) -> str:
    """Which parameter of a module, by its name, says how wide rows are."""
    names = [n for n in inspect.signature(type(module)).parameters if n not in ("args", "kwargs")]
    likely = [name for name in names if re.search("feature|in_|input|width|dim|channel", name)]
    given = " or ".join(f"net__module__{name}" for name in likely or names)
    wanted = f"{row_shape[0]} features" if len(row_shape) == 1 else f"the shape {tuple(row_shape)}"
    if not given:
        return f"Rows have {wanted}: give the net a module that takes such rows."
    return f"Rows have {wanted}: set {given} accordingly."


def _as_at_prediction(module: nn.Module) -> nn.Module:
    """A copy to be tried, or the module itself where trying it leaves no trace."""
    stack = linear_stack(module)
    return module if stack is not None and stack.holds else copy_module(module).eval()


def refuse_wrong_outputs(
    module: nn.Module,
    row_shape: tuple[int, ...],
    n_classes: int | None,
    link: str,
    n_logits: int | None = None,
) -> None:
    """Refuse a module whose outputs do not fit the targets, before one is used.

    `n_classes`: None where targets are numbers. `n_logits`: number of outputs that the mechanism
    asks for; None: what the targets need.
    """
    probe = _as_at_prediction(module)
    reference = next(probe.parameters())
    with torch.no_grad(), SeededDraws(0):
        output = probe(torch.zeros((2, *row_shape)).to(reference))
    allowed = [(), (1,)] if link in ("logit", "number") else [(n_classes,)]
    shape = tuple(output.shape[1:]) if isinstance(output, torch.Tensor) else None
    if n_logits is not None and shape != (n_logits,):
        raise ValueError(
            f"The module {type(module).__name__} must return {n_logits} logits a row, of the "
            f"label and of the group; got {shape}. Set its number of outputs (such as "
            "module__n_outputs), or leave it open."
        )
    if n_logits is None and shape not in allowed:
        got = type(output).__name__ if shape is None else f"outputs of shape {shape} a row"
        if link == "number":
            raise ValueError(
                f"The module {type(module).__name__} returns {got}, but targets are numbers: it "
                "must return one tensor with one output a row. Set its number of outputs to 1 "
                "(such as module__n_outputs), or leave it open."
            )
        raise ValueError(
            f"The module {type(module).__name__} returns {got}, but there are {n_classes} classes: "
            f"its criterion needs one tensor with {'one logit' if link == 'logit' else n_classes} "
            f"{'' if link == 'logit' else 'outputs '}a row. Set its number of outputs (such as "
            "module__n_outputs), or leave it open."
        )


def refuse_rows_it_cannot_take(
    module: nn.Module, parts: Callable[[], Iterable[torch.Tensor]]
) -> None:
    """Refuse rows that a module fails on, such as codes beyond an embedding.

    Modules made of layers that take any finite number are not run. `parts`: reads all rows.
    """
    indexes = any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in module.modules())
    if not indexes and type(module).__module__.startswith(("skfairdp.", "torch.nn.")):
        return
    # On the CPU: an index out of range on a GPU ends the process's use of it.
    probe = copy_module(module).cpu().eval()
    failed = False
    with torch.no_grad(), SeededDraws(0):
        for part in chain.from_iterable(rows.split(_CHUNK) for rows in parts()):
            try:
                probe(part.cpu().clone())  # layers may work in place
            except Exception:
                failed = True
                break
    if failed:
        raise ValueError(
            f"The module {type(module).__name__} takes rows of zeros, but not all rows of 'X'. "
            "Codes for an Embedding are integers from 0 to num_embeddings - 1: give undeclared "
            "values a code of their own."
        )


def refuse_mixed_block(module: nn.Module, row_shape: tuple[int, ...]) -> None:
    """Refuse a module whose output for a row changes by a bit with the rest of its block.

    Blocks are of one size, so that no kernel is chosen by it; a row stays at its place while
    all others change, to rows of several sizes.
    """
    if linear_stack(module) is not None:
        return
    probe = copy_module(module).eval()
    reference = next(probe.parameters())
    generator = torch.Generator().manual_seed(1)
    shape = (DEFAULT_ROWS, *row_shape)

    def rows(scale: float) -> torch.Tensor:
        return (scale * torch.randn(shape, generator=generator)).to(reference)

    with torch.no_grad(), SeededDraws(0):
        first = rows(1.0)
        output = probe(first.clone())
        places = (0, DEFAULT_ROWS - 1, DEFAULT_ROWS // 2, 1, DEFAULT_ROWS // 3, DEFAULT_ROWS - 2)
        for place, scale in zip(places, (0.0, 1.0, 1.0, 30.0, 1e4, 1e12), strict=True):
            block = rows(scale)
            block[place] = first[place]
            if not torch.equal(probe(block)[place], output[place]):
                raise ValueError(
                    f"The module {type(module).__name__} mixes the records of a batch: its output "
                    f"for a row of {DEFAULT_ROWS} changes with the other rows, or from call to "
                    "call. Let every row be processed by itself, without draws."
                )


def find_head(module: nn.Module, name: str | None = None) -> tuple[str, nn.Linear]:
    """Return the linear output layer of a module, and its name in ``module.named_modules()``.

    `name`: of that layer. None takes ``head`` if it is linear, else the last ``torch.nn.Linear``.
    """
    kind = type(module).__name__
    layers = dict(module.named_modules())
    linear = {key: layer for key, layer in layers.items() if isinstance(layer, nn.Linear)}
    choice = ", ".join(map(repr, linear)) or "none"
    if name is not None and name not in layers:
        raise ValueError(
            f"The module {kind} has no layer {name!r}; its linear layers are: {choice}."
        )
    if name is not None and name not in linear:
        raise ValueError(
            f"The head must be a torch.nn.Linear; {name!r} is a {type(layers[name]).__name__}. "
            f"The linear layers of {kind} are: {choice}."
        )
    if not linear:
        raise ValueError(
            f"The module {kind} has no torch.nn.Linear, so it has no head whose weights could "
            "be clipped. End it in a linear layer called `head`."
        )
    chosen = name if name is not None else "head" if "head" in linear else [*linear][-1]
    return chosen, linear[chosen]
