"""Clipped sums for any module, through ``torch.func``.

Every record is differentiated by itself (``vmap`` over ``grad``; ``grad`` one by one where that
cannot be), so nothing that a module does can mix records: it only ever sees a batch of one.
Nothing is hooked into the module and nothing stays behind on it. Blocks of records are of a fixed
size, and summed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from skfairdp.engine.clipping.base import Block, Clipper
from skfairdp.engine.clipping.norms import clip_factors, rounding_margin
from skfairdp.engine.objectives import check_losses
from skfairdp.engine.optimizers import FlatParameters, copy_module
from skfairdp.engine.person_rows import means
from skfairdp.engine.randomness import OwnDraws, are_served
from skfairdp.engine.row_blocks import blocks, fill, rows_for, rows_within

_BLOCK_ELEMENTS = 1 << 23
# Gradients of 32 records have to fit into half a gigabyte, or records go one by one.
_LARGEST_MODULE = 1 << 22
_CACHED_ELEMENTS = 1 << 17

_DECIDES = (
    "decides by the values of its input (an `if` on a tensor, .item(), .tolist()), which cannot "
    "be differentiated record by record. Use torch.where or masks instead."
)
_WRITES = (
    "writes values of its rows into one of its tensors in place. State that is learned from "
    "private rows outside the noisy sum is not allowed; compute it without in-place writes or "
    "leave it out."
)
_DRAWS = (
    "draws random numbers in training, which it did not do on rows of zeros before. Draw at every "
    "forward pass, or never, so that the numbers come from a generator of the fit's own."
)
_BACKWARD = (
    "has a backward hook, or an autograd.Function without setup_context, which torch cannot "
    "differentiate record by record. Remove the hook, or write the function with setup_context and "
    "generate_vmap_rule = True, as torch's page on extending torch.func shows."
)
# What torch.func says of modules that cannot be taken record by record at all, and of in-place
# writes, which may also go to a tensor that lives no longer than the record.
_REFUSALS = (
    ("data-dependent control flow", _DECIDES),
    (".item()", _DECIDES),
    ("mutate a captured Tensor", _WRITES),
    ("called random operation", _DRAWS),
    ("setup_context", _BACKWARD),
    ("generate_vmap_rule", _BACKWARD),
)
_IN_PLACE = ("vmap: inplace", "doesn't match the broadcast shape")


class FunctionalClipper(Clipper):
    """Sums of clipped gradients of any module.

    Buffers that its forward pass writes to are copies, so that no statistic of private rows stays
    on the module. Parameters that are absent from `flat` count as frozen.
    """

    path = "functional"
    product_terms = 0  # means are formed before their norms

    def __init__(
        self, module: nn.Module, flat: FlatParameters, objective: Callable[..., torch.Tensor]
    ) -> None:
        self._module = module
        self._objective = objective
        self._places = _places(module, flat)
        self._layout = flat.layout
        self._size = flat.vector.numel()
        # Number of squares of a parameter that are added in the module's arithmetic.
        terms = max(math.prod(slot.shape[1:] or slot.shape) for slot in flat.layout)
        self.margin = rounding_margin(flat.vector.dtype, terms)
        self.one_by_one = self._size > _LARGEST_MODULE

    def _rows_of_block(self, rows: int) -> int:
        if self._size > _LARGEST_MODULE:
            return 1
        return rows_within(rows, self._size, _BLOCK_ELEMENTS)

    def _person_blocks(self, most: int, rows: int) -> tuple[int, Callable[[int], int]]:
        largest = rows_for(most, rows)
        return largest, lambda _: largest if rows > 1 else 1

    def _of_block(self, block: Block) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
        """Return gradients of the records, whole blocks of persons; squared norms and outputs."""
        gradients, output = self._gradients(block.X, block.targets, block.n)
        persons, n = block.persons, block.n
        if persons is not None:
            size = 1 if self._size > _LARGEST_MODULE else len(block.X)
            if len(persons) < n:
                gradients = [fill(means(persons, gradient), size) for gradient in gradients]
            return gradients, self._all_squares(gradients), output
        squares = self._all_squares(gradients)
        return [gradient[:n] for gradient in gradients], squares[:n], output

    def _block_sums(
        self,
        gradients: list[torch.Tensor],
        squares: torch.Tensor,
        max_norm: float | torch.Tensor,
        weights: torch.Tensor,
        block: Block,
    ) -> torch.Tensor:
        factors, all_finite = clip_factors(squares, max_norm, self.margin)
        flat = [gradient.reshape(len(gradient), -1) for gradient in gradients]
        if not all_finite:
            blank = (factors == 0).unsqueeze(1)
            flat = [gradient.masked_fill(blank, 0.0) for gradient in flat]
        # Means of persons, which fill up whole blocks; those made up weigh nothing.
        coefficients = weights * factors[: weights.shape[1]]
        flat = [gradient[: weights.shape[1]] for gradient in flat]
        sums = coefficients.new_empty(len(weights), self._size)
        # A few columns at a time: their float64 copies stay in the cache.
        columns = max(1, _CACHED_ELEMENTS // len(factors))
        for slot, gradient in zip(self._layout, flat, strict=True):
            into = sums[:, slot.slice]
            for piece in blocks(gradient.shape[1], columns):
                torch.mm(coefficients, gradient[:, piece].double(), out=into[:, piece])
        return sums

    def _all_squares(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """Return upper bounds of the records' squared norms over all parameters."""
        return torch.stack([_squared_norms(gradient) for gradient in gradients]).sum(0)

    def _gradients(
        self, X: torch.Tensor, targets: tuple[torch.Tensor, ...], n: int
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return each parameter's per-record gradients, (B, *shape), and the outputs.

        `n`: number of records; those of the rows that follow need not be computed.
        """
        module, objective = self._module, self._objective
        parameters = dict(module.named_parameters())
        trained = {slot.name: parameters[slot.name].detach() for slot in self._layout}
        buffers = dict(module.named_buffers())

        def loss(
            values: dict[str, torch.Tensor], row: torch.Tensor, *target: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            state = {place: values[name] for place, name in self._places}
            # Copies: what forward writes into a buffer must not stay on the module.
            state.update((name, buffer.clone()) for name, buffer in buffers.items())
            output = functional_call(module, state, (row.unsqueeze(0),), tie_weights=False)
            if isinstance(output, torch.Tensor) and output.dim() == 0:
                # A module that squeezes its output drops the only record's axis.
                output = output.reshape(1)
            losses = objective(output, *(t.unsqueeze(0) for t in target))
            check_losses(losses, (1,))
            return losses[0], output[0]

        of_one = grad(loss, has_aux=True)
        try:
            if not self.one_by_one:
                in_dims = (None,) + (0,) * (1 + len(targets))
                randomness = "different" if are_served() else "error"
                of_all = vmap(of_one, in_dims=in_dims, randomness=randomness)
                with self.products.everywhere():
                    gradients, outputs = of_all(trained, X, *targets)
        except RuntimeError as error:
            kind, said = type(module).__name__, str(error)
            reason = next((text for key, text in _REFUSALS if key in said), None)
            if reason is None and any(key in said for key in _IN_PLACE):
                self.one_by_one = not _keeps_state(module, X)
                reason = None if self.one_by_one else _WRITES
            if reason is not None:
                raise ValueError(f"The module {kind} {reason}") from error
            if not self.one_by_one:
                raise
        if self.one_by_one:
            # Rows that fill up the block draw with the others, where a fit's generator serves them.
            taken = [t if are_served() else t[: max(n, 1)] for t in (X, *targets)]
            # Copies: how a processor rounds may depend on where a row lies in memory.
            records = ([t.clone() for t in row] for row in zip(*taken, strict=True))
            watching = nullcontext() if are_served() else OwnDraws(np.random.default_rng())
            with watching as watch, self.products.everywhere():
                each = [of_one(trained, *row) for row in records]
            if watch is not None and watch.used:
                raise ValueError(f"The module {type(module).__name__} {_DRAWS}")
            gradients = {
                name: fill(torch.stack([found[name] for found, _ in each]), len(X))
                for name in trained
            }
            outputs = fill(torch.stack([output for _, output in each]), len(X))
        return [gradients[slot.name].detach() for slot in self._layout], outputs.detach()


def _squared_norms(gradient: torch.Tensor) -> torch.Tensor:
    """Return upper bounds of the records' squared norms of one parameter's gradient.

    Only the trailing axes are added in the module's dtype, the rest in float64, which
    keeps the rounding margin small for layers of millions of weights.
    """
    pieces = gradient.flatten(2) if gradient.dim() > 2 else gradient.reshape(len(gradient), 1, -1)
    squares: torch.Tensor = torch.linalg.vector_norm(pieces, dim=2).double().square_().sum(1)
    return squares.add_(gradient[0].numel() * torch.finfo(gradient.dtype).tiny)


def _keeps_state(module: nn.Module, X: torch.Tensor) -> bool:
    """Return whether a row changes one of the module's tensors."""
    left = []
    for value in (0.0, 1.0):
        probe = copy_module(module)
        with torch.no_grad():
            probe(X.new_full((1, *X.shape[1:]), value))
        values = [value for layer in probe.modules() for value in vars(layer).values()]
        left.append([v for v in (*values, *probe.buffers()) if isinstance(v, torch.Tensor)])
    return any(not torch.equal(a, b) for a, b in zip(*left, strict=True))


def _places(module: nn.Module, flat: FlatParameters) -> list[tuple[str, str]]:
    """Return (place, name in the layout) for every place that uses a trained parameter.

    A parameter tied to several layers has one place in each. A layer that is used
    twice counts once: ``functional_call``'s own tying would swap its parameter twice
    and leave a differentiated tensor on the module.
    """
    parameters = dict(module.named_parameters())
    names = {id(parameters[slot.name]): slot.name for slot in flat.layout}
    return [
        (f"{prefix}.{key}" if prefix else key, names[id(parameter)])
        for prefix, layer in module.named_modules()
        for key, parameter in layer._parameters.items()
        if parameter is not None and id(parameter) in names
    ]
