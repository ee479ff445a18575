"""Clipped sums for any module, through ``torch.func``.

Every record is differentiated by itself (``vmap`` over ``grad``), so nothing that a
module does can mix records: it only ever sees a batch of one. Nothing is hooked into
the module and nothing stays behind on it. Records go through ``vmap`` in blocks of a fixed
size and are summed in float64; what ``vmap`` cannot take goes through ``grad`` one by one.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from skfairdp.engine.clipping.norms import clip_factors, rounding_margin
from skfairdp.engine.exact_products import ExactProducts
from skfairdp.engine.parameter_vector import copy_module
from skfairdp.engine.person_rows import PersonRows
from skfairdp.engine.randomness import OwnDraws, are_served
from skfairdp.engine.row_blocks import (
    DEFAULT_ROWS,
    PairwiseSum,
    blocks,
    fill,
    rows_for,
    rows_within,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skfairdp.engine.parameter_vector import FlatParameters

__all__ = ["FunctionalClipper"]

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
# What torch.func says of modules that cannot be taken record by record at all, and of in-place
# writes, which may also go to a tensor that lives no longer than the record.
_REFUSALS = (
    ("data-dependent control flow", _DECIDES),
    (".item()", _DECIDES),
    ("mutate a captured Tensor", _WRITES),
    ("called random operation", _DRAWS),
)
_IN_PLACE = ("vmap: inplace", "doesn't match the broadcast shape")


class FunctionalClipper:
    """Sums of clipped gradients of any module.

    `module`: batch first. Buffers that its forward pass writes to are copies, so that no
    statistic of private rows stays on the module. `flat`: of the same module; parameters that are
    absent count as frozen. `objective`: ``objective(output, *targets)`` returns the per-record
    losses, shape (B,). `path`: ``"functional"``. `margin`: relative rounding margin by which the
    clip norm is lowered. `one_by_one`: whether records go through the module in batches of one.
    """

    path = "functional"
    product_terms = 0  # means are formed before their norms

    def __init__(
        self, module: nn.Module, flat: FlatParameters, objective: Callable[..., torch.Tensor]
    ) -> None:
        self._module = module
        self._objective = objective
        self._layout = flat.layout
        self._places = _places(module, flat)
        self._size = flat.vector.numel()
        self._dtype = flat.vector.dtype
        self._device = flat.vector.device
        self.margin = rounding_margin(self._dtype, max(_terms(s.shape) for s in flat.layout))
        self.one_by_one = self._size > _LARGEST_MODULE

    def clipped_sums(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        max_norm: float | torch.Tensor,
        weights: torch.Tensor,
        outputs: list[torch.Tensor] | None = None,
        rows: int = DEFAULT_ROWS,
        persons: PersonRows | None = None,
    ) -> torch.Tensor:
        """Return weighted sums of clipped per-record gradients.

        See :meth:`skfairdp.engine.clipping.clippers.Clipper.clipped_sums`.
        """
        single = weights.dim() == 1
        weights = weights.unsqueeze(0) if single else weights
        size = self._rows_of_block(rows)
        total = PairwiseSum(rows // size)
        for part, units, own in _blocks(len(X), size, persons):
            gradients, squares, output = self._block(X, targets, part, rows, own)
            if outputs is not None:
                outputs.append(output)
            limit = max_norm[units] if isinstance(max_norm, torch.Tensor) else max_norm
            of_block = weights[:, units]
            if own is not None:  # filled up, as blocks of rows are
                of_block = nn.functional.pad(of_block, (0, len(squares) - len(own)))
                limit = fill(limit, len(squares), 1.0) if isinstance(limit, torch.Tensor) else limit
            total.add(self._block_sums(gradients, squares, limit, of_block))
        sums = total.total()
        if sums is None:
            sums = weights.new_zeros(len(weights), self._size, dtype=torch.float64)
        return sums[0] if single else sums

    def draws_nothing(self, X: torch.Tensor) -> bool:
        """Tell whether it is certain that no layer draws random numbers: never."""
        return False

    def take_one_by_one(self) -> None:
        """Send records through the module one by one from now on, each in a batch of one."""
        self.one_by_one = True

    def serving(self, X: torch.Tensor) -> FunctionalClipper:
        """Return the clipper that would sum gradients of such rows now."""
        return self

    def norms(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        rows: int = DEFAULT_ROWS,
        persons: PersonRows | None = None,
    ) -> torch.Tensor:
        """Return the norms of the records' gradients.

        See :meth:`skfairdp.engine.clipping.clippers.Clipper.norms`.
        """
        pieces = [torch.zeros(0, dtype=torch.float64, device=self._device)]
        for part, _, own in _blocks(len(X), self._rows_of_block(rows), persons):
            squares = self._block(X, targets, part, rows, own)[1]
            pieces.append(squares[: len(X) if own is None else len(own)].sqrt_())
        return torch.cat(pieces)

    def _rows_of_block(self, rows: int) -> int:
        if self._size > _LARGEST_MODULE:
            return 1
        return rows_within(rows, self._size, _BLOCK_ELEMENTS)

    def _block(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        part: slice,
        rows: int,
        persons: PersonRows | None,
    ) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
        """Return gradients, squared norms and outputs of some rows, computed in a whole block.

        Gradients and norms are those of the persons, where these are given, and of made-up ones
        that fill the block.
        """
        size = self._rows_of_block(rows)
        size = rows_for(persons.most, size) if persons is not None and size > 1 else size
        filled = tuple(fill(target[part], size) for target in targets)
        gradients, output = self._gradients(fill(X[part], size), filled)
        n = part.stop - part.start
        if persons is not None:
            if len(persons) < n:
                gradients = [fill(persons.means(gradient), size) for gradient in gradients]
            return gradients, self._all_squares(gradients), output[:n]
        squares = self._all_squares(gradients)
        return [gradient[:n] for gradient in gradients], squares[:n], output[:n]

    def _block_sums(
        self,
        gradients: list[torch.Tensor],
        squares: torch.Tensor,
        max_norm: float | torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        factors, all_finite = clip_factors(squares, max_norm, self.margin)
        flat = [gradient.reshape(len(gradient), -1) for gradient in gradients]
        if not all_finite:
            blank = (factors == 0).unsqueeze(1)
            flat = [gradient.masked_fill(blank, 0.0) for gradient in flat]
        coefficients = weights * factors
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
        shape = (len(gradients), len(gradients[0]))
        norms = torch.empty(shape, dtype=torch.float64, device=self._device)
        for gradient, norm in zip(gradients, norms, strict=True):
            _squared_norms(gradient, out=norm)
        return norms.sum(0)

    def _gradients(
        self, X: torch.Tensor, targets: tuple[torch.Tensor, ...]
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return each parameter's per-record gradients, (B, *shape), and the outputs."""
        module, objective = self._module, self._objective
        parameters = dict(module.named_parameters())
        trained = {slot.name: parameters[slot.name].detach() for slot in self._layout}
        buffers = dict(module.named_buffers())
        places = self._places

        def loss(
            values: dict[str, torch.Tensor], row: torch.Tensor, *target: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            state = {place: values[name] for place, name in places}
            # Copies: what forward writes into a buffer must not stay on the module.
            state.update((name, buffer.clone()) for name, buffer in buffers.items())
            output = functional_call(module, state, (row.unsqueeze(0),), tie_weights=False)
            if isinstance(output, torch.Tensor) and output.dim() == 0:
                # A module that squeezes its output drops the only record's axis.
                output = output.reshape(1)
            losses = objective(output, *(t.unsqueeze(0) for t in target))
            if losses.shape != (1,):
                raise ValueError(
                    f"The objective returned losses of shape {tuple(losses.shape)} for one "
                    "record; it must return one loss per record, shape (1,)."
                )
            return losses[0], output[0]

        of_one = grad(loss, has_aux=True)
        try:
            if not self.one_by_one:
                in_dims = (None,) + (0,) * (1 + len(targets))
                randomness = "different" if are_served() else "error"
                of_all = vmap(of_one, in_dims=in_dims, randomness=randomness)
                with ExactProducts():
                    gradients, outputs = of_all(trained, X, *targets)
        except RuntimeError as error:
            kind, said = type(module).__name__, str(error)
            reason = next((text for key, text in _REFUSALS if key in said), None)
            if reason is None and any(key in said for key in _IN_PLACE):
                if not _keeps_state(module, X):
                    self.one_by_one = True
                else:
                    reason = _WRITES
            if reason is not None:
                raise ValueError(f"The module {kind} {reason}") from error
            if not self.one_by_one:
                raise
        if self.one_by_one:
            # Copies: how a processor rounds may depend on where a row lies in memory.
            records = ([t.clone() for t in row] for row in zip(X, *targets, strict=True))
            watching = nullcontext() if are_served() else OwnDraws(np.random.default_rng())
            with watching as watch, ExactProducts():
                each = [of_one(trained, *row) for row in records]
            if watch is not None and watch.used:
                raise ValueError(f"The module {type(module).__name__} {_DRAWS}")
            gradients = {name: torch.stack([found[name] for found, _ in each]) for name in trained}
            outputs = torch.stack([output for _, output in each])
        return [gradients[slot.name].detach() for slot in self._layout], outputs.detach()


def _blocks(
    n: int, size: int, persons: PersonRows | None
) -> Iterable[tuple[slice, slice, PersonRows | None]]:
    """Slices of rows and of records; whole persons, in blocks that hold the largest."""
    if persons is not None:
        return persons.blocks(rows_for(persons.most, size))
    return ((part, part, None) for part in blocks(n, size))


def _keeps_state(module: nn.Module, X: torch.Tensor) -> bool:
    """Tell whether what a module does to one row shows in one of its tensors afterwards."""
    rows = [X.new_full((1, *X.shape[1:]), value) for value in (0.0, 1.0)]
    left = []
    for row in rows:
        probe = copy_module(module)
        with torch.no_grad():
            probe(row)
        left.append([value for layer in probe.modules() for value in vars(layer).values()])
        left[-1] += probe.buffers()
    tensors = [[value for value in values if isinstance(value, torch.Tensor)] for values in left]
    return any(not torch.equal(a, b) for a, b in zip(*tensors, strict=True))


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


def _terms(shape: tuple[int, ...]) -> int:
    """Return how many squares of a parameter are added in the module's arithmetic."""
    return math.prod(shape[1:]) if len(shape) > 1 else math.prod(shape)


def _squared_norms(gradient: torch.Tensor, out: torch.Tensor) -> None:
    """Write upper bounds of the records' squared norms of one parameter's gradient.

    Only the trailing axes are added in the module's dtype, the rest in float64, which
    keeps the rounding margin small for layers of millions of weights.
    """
    dtype = gradient.dtype
    pieces = gradient.flatten(2) if gradient.dim() > 2 else gradient.reshape(len(gradient), 1, -1)
    norms = torch.linalg.vector_norm(pieces, dim=2).double()
    torch.sum(norms.square_(), dim=1, out=out)
    out.add_(gradient[0].numel() * torch.finfo(dtype).tiny)
