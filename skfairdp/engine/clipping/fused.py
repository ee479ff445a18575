"""Clipped sums for stacks of linear layers, without per-record gradients.

For a linear layer with input ``a_i`` and upstream gradient ``d_i`` the gradient of
record ``i`` is the outer product ``d_i a_i^T`` (and ``d_i`` for the bias). Its
squared norm is ``(|a_i|^2 + 1) |d_i|^2``, and the sum of clipped gradients is the
single matrix product ``(c * d)^T a``, where ``c`` holds each record's clip factor
times its weight. Rows go through the layers in blocks of a fixed size, by products that are exact
(:mod:`skfairdp.engine.exact_products`), and are summed in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from skfairdp.engine.clipping.linear_stacks import LinearStack
from skfairdp.engine.clipping.norms import clip_factors, rounding_margin
from skfairdp.engine.exact_products import parts_of, product
from skfairdp.engine.objectives import Objective
from skfairdp.engine.person_rows import PersonRows
from skfairdp.engine.row_blocks import (
    DEFAULT_ROWS,
    PERSON_BLOCKS,
    PairwiseSum,
    blocks,
    fill,
    person_block,
    rows_for,
    rows_within,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from skfairdp.engine.parameter_vector import FlatParameters

__all__ = ["FusedClipper"]

_BLOCK_ELEMENTS = 1 << 23


class FusedClipper:
    """Sums of clipped gradients of a :class:`~skfairdp.engine.clipping.linear_stacks.LinearStack`.

    `flat`: of the same module; parameters that are absent count as frozen. `objective`:
    ``objective(output, *targets)`` returns the per-record losses, shape (B,). `path`:
    ``"fused"``. `margin`: relative rounding margin by which the clip norm is lowered.
    """

    path = "fused"
    one_by_one = False

    def __init__(
        self, stack: LinearStack, flat: FlatParameters, objective: Callable[..., torch.Tensor]
    ) -> None:
        self._stack = stack
        self._objective = objective
        # Parameters, not tensors: an optimizer may move what they point to.
        self._parameters = [(layer.weight, layer.bias) for layer in stack.linears]
        self._size = flat.vector.numel()
        self._dtype = flat.vector.dtype
        self._device = flat.vector.device
        slots = {slot.name: slot for slot in flat.layout}
        prefixes = [f"{prefix}." if prefix else "" for prefix in stack.prefixes]
        self._slots = [(slots.get(f"{p}weight"), slots.get(f"{p}bias")) for p in prefixes]
        self._first = min(i for i, slots in enumerate(self._slots) if any(slots))
        widths = [layer.in_features + layer.out_features for layer in stack.linears]
        self.margin = rounding_margin(torch.float64, max(widths) + len(widths))
        self.product_terms = max(widths) + len(widths) + 32
        tiny = torch.finfo(torch.float64).tiny
        trained = list(enumerate(self._slots))[self._first :]
        self._without_weight = [i - self._first for i, (weight, _) in trained if weight is None]
        constants = [
            [layer.in_features * tiny + (bias is not None), layer.out_features * tiny]
            for layer, (_, bias) in ((stack.linears[i], slots) for i, slots in trained)
        ]
        # Added to the sums of squares: inputs of all trained layers, then deltas; (2L, 1).
        self._offsets = torch.tensor(
            [offset for column in zip(*constants, strict=True) for offset in column],
            dtype=torch.float64,
            device=self._device,
        ).unsqueeze(1)
        self._width = sum(widths)
        self._reserve(1)

    def accepts(self, X: torch.Tensor) -> bool:
        """Tell whether the outer-product identity holds for such a batch.

        `X` (B, ...).
        """
        return (X.dim() == 2 or (self._stack.flattens and X.dim() > 2)) and self._stack.holds

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
        if self._sums.shape[0] != len(weights):
            self._reserve(len(weights))
        n, asked = len(X), rows
        rows = rows_within(rows, self._width, _BLOCK_ELEMENTS)
        if persons is not None:
            self._sum_persons(X, targets, max_norm, weights, outputs, persons)
            return self._sums[0] if single else self._sums
        X = fill(X, rows)
        if n % rows:
            targets = tuple(fill(target, rows) for target in targets)
            weights = fill(weights.t(), rows).t()
            max_norm = fill(max_norm, rows, 1.0) if isinstance(max_norm, torch.Tensor) else max_norm
        with torch.inference_mode():
            if len(X) == rows:
                self._sum_block(X, targets, max_norm, weights, outputs)
            else:
                total = PairwiseSum(asked // rows)
                for part in blocks(len(X), rows):
                    limit = max_norm[part] if isinstance(max_norm, torch.Tensor) else max_norm
                    of_block = tuple(target[part] for target in targets)
                    self._sum_block(X[part], of_block, limit, weights[:, part], outputs)
                    total.add(self._sums.clone())
                sums = total.total()
                self._sums.zero_() if sums is None else self._sums.copy_(sums)
        if outputs and n % rows:
            outputs[-1] = outputs[-1][: n % rows]
        return self._sums[0] if single else self._sums

    def _sum_persons(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        max_norm: float | torch.Tensor,
        weights: torch.Tensor,
        outputs: list[torch.Tensor] | None,
        persons: PersonRows,
    ) -> None:
        """Overwrite the buffer with the sums over persons, in blocks of whole ones."""
        largest, total = self._largest_block(persons), PairwiseSum()
        with torch.inference_mode():
            for part, units, own in persons.blocks(largest):
                size = person_block(part.stop - part.start, largest)
                of_block = tuple(fill(target[part], size) for target in targets)
                limit = max_norm[units] if isinstance(max_norm, torch.Tensor) else max_norm
                self._sum_block(
                    fill(X[part], size), of_block, limit, weights[:, units], outputs, own
                )
                if outputs:
                    outputs[-1] = outputs[-1][: part.stop - part.start]
                total.add(self._sums.clone())
            sums = total.total()
            self._sums.zero_() if sums is None else self._sums.copy_(sums)

    def _largest_block(self, persons: PersonRows) -> int:
        rows = rows_within(PERSON_BLOCKS[-1], self._width, _BLOCK_ELEMENTS)
        return rows_for(persons.most, rows)

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
        n, rows = len(X), rows_within(rows, self._width, _BLOCK_ELEMENTS)
        if persons is not None:
            largest = self._largest_block(persons)
            with torch.inference_mode():
                found = [X.new_zeros(0, dtype=torch.float64)]
                for part, _, own in persons.blocks(largest):
                    rows = person_block(part.stop - part.start, largest)
                    of_block = tuple(fill(target[part], rows) for target in targets)
                    sides = self._sides(fill(X[part], rows), of_block)
                    found.append(self._squares_of(own, *sides[:2]).sqrt_())
                return torch.cat(found)
        X, targets = fill(X, rows), tuple(fill(target, rows) for target in targets)
        with torch.inference_mode():
            pieces = [X.new_zeros(0, dtype=torch.float64)]
            for part in blocks(len(X), rows):
                sides = self._sides(X[part], tuple(target[part] for target in targets))
                pieces.append(self._squared_norms(*sides[:2]).sqrt_())
            return torch.cat(pieces)[:n]

    def _sum_block(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        max_norm: float | torch.Tensor,
        weights: torch.Tensor,
        outputs: list[torch.Tensor] | None,
        persons: PersonRows | None = None,
    ) -> None:
        """Overwrite the buffer with the sums over a block, whose last rows may weigh nothing."""
        inputs, deltas, output = self._sides(X, targets)
        if outputs is not None:
            for layer in self._stack.tail:
                output = layer(output)
            outputs.append(output)
        squares = self._squares_of(persons, inputs, deltas)
        factors, all_finite = clip_factors(squares, max_norm, self.margin)
        coefficients = weights * factors
        if persons is not None:
            coefficients = persons.shares(coefficients, len(X))
            factors = factors if all_finite else persons.shares(factors, len(X))
        if not all_finite:
            blank = (factors == 0).unsqueeze(1)
            inputs = [a.masked_fill(blank, 0.0) for a in inputs]
            deltas = [d.masked_fill(blank, 0.0) for d in deltas]
        if len(coefficients) == 1:
            self._weighted_sum(inputs, deltas, coefficients[0], self._views[0])
            return
        for row, views in zip(coefficients, self._views, strict=True):
            member = row.nonzero().squeeze(1)  # micro-batches share no record
            self._weighted_sum(
                [a.index_select(0, member) for a in inputs],
                [d.index_select(0, member) for d in deltas],
                row.index_select(0, member),
                views,
            )

    def _sides(
        self, X: torch.Tensor, targets: tuple[torch.Tensor, ...]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
        """Return inputs and upstream gradients of the trained layers, and the last output."""
        inputs, saved, output = self._forward(X)
        return inputs, self._backward(self._output_gradient(output, targets), saved), output

    def _forward(
        self, X: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[list[torch.Tensor]], torch.Tensor]:
        """Return the inputs of the trained layers, what backward needs, the output."""
        stack = self._stack
        value = X.flatten(1) if stack.flattens else X
        if stack.before:
            value = value.clone()
            for activation in stack.before:
                value = activation.forward(value)
        inputs, saved = [], []
        for index, (weight, bias) in enumerate(self._parameters):
            rows = parts_of(value, 1)
            if index >= self._first:
                inputs.append(_whole(rows))
            exact = product(rows, [part.t() for part in parts_of(weight, 1)])
            value = (exact if bias is None else exact.add_(bias)).to(self._dtype)
            kept = []
            for position, activation in enumerate(stack.between[index]):
                before = value
                if activation.in_place and position:
                    # The activation before this one may have saved its output.
                    value = value.clone()
                value = activation.forward(value)
                kept.append(value if activation.in_place else before)
            saved.append(kept)
        return inputs, saved, value

    def _output_gradient(
        self, output: torch.Tensor, targets: tuple[torch.Tensor, ...]
    ) -> torch.Tensor:
        """Return d loss_i / d z_i at the last linear layer, shape (B, K)."""
        if isinstance(self._objective, Objective) and not self._stack.tail:
            gradient = self._objective.gradient(output, *targets)
            if gradient is not None:
                return gradient
        with torch.inference_mode(False), torch.enable_grad():
            leaf = output.clone().requires_grad_()
            value = leaf
            for layer in self._stack.tail:
                value = layer(value)
            losses = self._objective(value, *(target.clone() for target in targets))
            if losses.shape != output.shape[:1]:
                raise ValueError(
                    f"The objective returned losses of shape {('B', *losses.shape[1:])} for B "
                    "records; it must return one loss per record, shape (B,)."
                )
            return torch.autograd.grad(losses.sum(), leaf)[0]

    def _backward(self, delta: torch.Tensor, saved: list[list[torch.Tensor]]) -> list[torch.Tensor]:
        """Return the upstream gradients of the trained layers, first layer first."""
        deltas = []
        for index in range(len(self._parameters) - 1, self._first - 1, -1):
            if index == self._first:
                deltas.append(delta.double())
                break
            rows = parts_of(delta, 1)
            deltas.append(_whole(rows))
            delta = product(rows, parts_of(self._parameters[index][0], 0)).to(self._dtype)
            steps = zip(self._stack.between[index - 1], saved[index - 1], strict=True)
            for activation, kept in reversed(list(steps)):
                delta = activation.backward(delta, kept)
        return deltas[::-1]

    def _squares_of(
        self, persons: PersonRows | None, inputs: list[torch.Tensor], deltas: list[torch.Tensor]
    ) -> torch.Tensor:
        squares = self._squared_norms(inputs, deltas)
        if persons is None:
            return squares
        trained = ((w is not None, b is not None) for w, b in self._slots[self._first :])
        sides = [(a, d, *own) for a, d, own in zip(inputs, deltas, trained, strict=True)]
        return persons.squares(squares, sides, self.product_terms)

    def _squared_norms(
        self, inputs: list[torch.Tensor], deltas: list[torch.Tensor]
    ) -> torch.Tensor:
        vectors = [*inputs, *deltas]
        norms = vectors[0].new_empty(len(vectors), len(vectors[0]))
        for vector, norm in zip(vectors, norms.unbind(0), strict=True):
            torch.linalg.vector_norm(vector, dim=1, out=norm)
        for index in self._without_weight:
            norms[index] = 0.0
        # Both at once: squares, and the offsets that make upper bounds of them.
        input_squares, delta_squares = torch.addcmul(self._offsets, norms, norms).chunk(2)
        return input_squares.mul_(delta_squares).sum(0)

    def _weighted_sum(
        self,
        inputs: list[torch.Tensor],
        deltas: list[torch.Tensor],
        coefficients: torch.Tensor,
        views: list[tuple[torch.Tensor | None, ...]],
    ) -> None:
        column = coefficients.unsqueeze(1)
        for value, delta, (weight, bias) in zip(inputs, deltas, views, strict=True):
            if bias is not None:
                torch.mv(delta.t(), coefficients, out=bias)
            if weight is not None:
                torch.mm((delta * column).t(), value, out=weight)

    def _reserve(self, n_sums: int) -> None:
        """Keep one buffer of `n_sums` rows, and its views in the parameters' shapes."""
        self._sums = torch.zeros(n_sums, self._size, dtype=torch.float64, device=self._device)
        self._views = [
            [
                tuple(None if slot is None else row[slot.slice].view(slot.shape) for slot in slots)
                for slots in self._slots[self._first :]
            ]
            for row in self._sums
        ]


def _whole(parts: list[torch.Tensor]) -> torch.Tensor:
    """Return the matrix that parts sum to, a float64 number each."""
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)
