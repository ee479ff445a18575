"""Clipped sums for any module, through ``torch.func``.

Records are differentiated in blocks of a fixed size
(:mod:`skfairdp.engine.clipping.record_gradients`) and summed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from skfairdp.engine.clipping.base import Block, Clipper
from skfairdp.engine.clipping.norms import clip_factors, rounding_margin
from skfairdp.engine.clipping.record_gradients import RecordGradients
from skfairdp.engine.parameter_vector import FlatParameters
from skfairdp.engine.row_blocks import blocks, fill, rows_for, rows_within

_BLOCK_ELEMENTS = 1 << 23
# Gradients of 32 records have to fit into half a gigabyte, or records go one by one.
_LARGEST_MODULE = 1 << 22
_CACHED_ELEMENTS = 1 << 17


class FunctionalClipper(Clipper):
    """Sums of clipped gradients of any module.

    `module`: batch first. Buffers that its forward pass writes to are copies, so that no
    statistic of private rows stays on the module. `flat`: of the same module; parameters that are
    absent count as frozen. `objective`: ``objective(output, *targets)`` returns the per-record
    losses, shape (B,).
    """

    path = "functional"
    product_terms = 0  # means are formed before their norms

    def __init__(
        self, module: nn.Module, flat: FlatParameters, objective: Callable[..., torch.Tensor]
    ) -> None:
        self._objective = objective
        self._layout = flat.layout
        self._size = flat.vector.numel()
        self._dtype = flat.vector.dtype
        self._device = flat.vector.device
        self.margin = rounding_margin(self._dtype, max(_terms(s.shape) for s in flat.layout))
        one_by_one = self._size > _LARGEST_MODULE
        self._of_records = RecordGradients(module, flat, objective, one_by_one)

    @property
    def one_by_one(self) -> bool:
        return self._of_records.one_by_one

    def take_one_by_one(self) -> None:
        self._of_records.one_by_one = True

    def _rows_of_block(self, rows: int) -> int:
        if self._size > _LARGEST_MODULE:
            return 1
        return rows_within(rows, self._size, _BLOCK_ELEMENTS)

    def _person_blocks(self, most: int, rows: int) -> tuple[int, Callable[[int], int]]:
        largest = rows_for(most, rows)
        return largest, lambda _: largest if rows > 1 else 1

    def _of_block(self, block: Block) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
        """Return gradients of the records, whole blocks of persons; squared norms and outputs."""
        gradients, output = self._gradients(block.X, block.targets)
        persons, n = block.persons, block.n
        if persons is not None:
            size = 1 if self._size > _LARGEST_MODULE else len(block.X)
            if len(persons) < n:
                gradients = [fill(persons.means(gradient), size) for gradient in gradients]
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
        return self._of_records.of(X, targets)


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
