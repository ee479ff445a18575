"""Clipped sums for any module, through ``torch.func``.

Records are differentiated in blocks of a fixed size
(:mod:`skfairdp.engine.clipping.record_gradients`) and summed in float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

from skfairdp.engine.clipping.norms import clip_factors, rounding_margin
from skfairdp.engine.clipping.record_gradients import RecordGradients
from skfairdp.engine.person_rows import PersonRows
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

_BLOCK_ELEMENTS = 1 << 23
# Gradients of 32 records have to fit into half a gigabyte, or records go one by one.
_LARGEST_MODULE = 1 << 22
_CACHED_ELEMENTS = 1 << 17


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
        """Whether records go through the module in batches of one."""
        return self._of_records.one_by_one

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
        largest = size if persons is None else rows_for(persons.most, size)
        total = PairwiseSum(max(1, rows // largest))
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
        self._of_records.one_by_one = True

    def serving(self, X: torch.Tensor) -> FunctionalClipper:
        """Return the clipper that would sum gradients of such rows now."""
        return self

    def norms(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        rows: int = DEFAULT_ROWS,
        persons: PersonRows | None = None,
        watch: Callable[[list[torch.Tensor], torch.Tensor], None] | None = None,
    ) -> torch.Tensor:
        """Return the norms of the records' gradients.

        See :meth:`skfairdp.engine.clipping.clippers.Clipper.norms`.
        """
        pieces = [torch.zeros(0, dtype=torch.float64, device=self._device)]
        for part, _, own in _blocks(len(X), self._rows_of_block(rows), persons):
            gradients, squares, output = self._block(X, targets, part, rows, own)
            if watch is not None:
                watch(gradients, output)
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
        return self._of_records.of(X, targets)


def _blocks(
    n: int, size: int, persons: PersonRows | None
) -> Iterable[tuple[slice, slice, PersonRows | None]]:
    """Slices of rows and of records; whole persons, in blocks that hold the largest."""
    if persons is not None:
        return persons.blocks(rows_for(persons.most, size))
    return ((part, part, None) for part in blocks(n, size))


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
