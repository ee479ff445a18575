"""Clipped sums for stacks of linear layers, without per-record gradients.

For a linear layer with input ``a_i`` and upstream gradient ``d_i`` the gradient of
record ``i`` is the outer product ``d_i a_i^T`` (and ``d_i`` for the bias). Its
squared norm is ``(|a_i|^2 + 1) |d_i|^2``, and the sum of clipped gradients is the
single matrix product ``(c * d)^T [a, 1]``, where ``c`` holds each record's clip factor
times its weight. Rows go through the layers in blocks of a fixed size, in the arithmetic of the
module, and are summed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from skfairdp.engine.clipping.base import Block, Clipper
from skfairdp.engine.clipping.norms import clip_factors, rounding_margin
from skfairdp.engine.modules import LinearStack
from skfairdp.engine.objectives import Objective, check_losses
from skfairdp.engine.optimizers import FlatParameters
from skfairdp.engine.person_rows import shares, squares_of_means
from skfairdp.engine.row_blocks import PERSON_BLOCKS, person_block, rows_for, rows_within

# Part of a vector of sums, and the part of a layer's product that is copied to it.
Part = tuple[torch.Tensor, torch.Tensor]


class Room(NamedTuple):
    """Memory for the vectors of a block of some size, with views that every block would make."""

    # Of each trained layer: inputs in float64, then 1 where a bias is trained, then zeros
    inputs: list[torch.Tensor]
    columns: list[torch.Tensor]  # those of the inputs alone
    norms: torch.Tensor  # (2L, B)
    of_each: tuple[torch.Tensor, ...]  # rows of `norms`


_BLOCK_ELEMENTS = 1 << 23
# Numbers that kernels of float64 products take at once, with AVX-512; half as many with AVX2. A
# product of 89 columns takes longer than one of 96.
_AT_ONCE = 24


class FusedClipper(Clipper):
    """Sums of clipped gradients of a :class:`~skfairdp.engine.modules.LinearStack`.

    Parameters that are absent from `flat` count as frozen.
    """

    path = "fused"

    def __init__(
        self, stack: LinearStack, flat: FlatParameters, objective: Callable[..., torch.Tensor]
    ) -> None:
        self._stack = stack
        self._size = flat.vector.numel()
        device = flat.vector.device
        self._zeros = partial(torch.zeros, dtype=torch.float64, device=device)
        slots = {slot.name: slot for slot in flat.layout}
        prefixes = [f"{prefix}." if prefix else "" for prefix in stack.prefixes]
        self._slots = [(slots.get(f"{p}weight"), slots.get(f"{p}bias")) for p in prefixes]
        first = min(i for i, slots in enumerate(self._slots) if any(slots))
        self._slots = self._slots[first:]  # of the trained layers
        self._objective, self._dtype, self._first = objective, flat.vector.dtype, first
        widths = [layer.in_features + layer.out_features for layer in stack.linears]
        self._width = sum(widths)
        self.margin = rounding_margin(torch.float64, max(widths) + len(widths) + 1)
        self.product_terms = max(widths) + len(widths) + 33
        trained = stack.linears[first:]
        # Of each trained layer: how many of its inputs have a weight that is trained.
        self._used = [
            0 if weight is None else layer.in_features
            for layer, (weight, _) in zip(trained, self._slots, strict=True)
        ]
        tiny = torch.finfo(torch.float64).tiny
        sides = [layer.in_features for layer in trained], [layer.out_features for layer in trained]
        # Added to the sums of squares: inputs of all trained layers, then deltas; (2L, 1).
        self._offsets = torch.tensor(
            [width * tiny for side in sides for width in side],
            dtype=torch.float64,
            device=device,
        ).unsqueeze(1)
        self._products = [
            self._zeros(layer.out_features, -(-(used + 1) // _AT_ONCE) * _AT_ONCE)
            for layer, used in zip(trained, self._used, strict=True)
        ]
        # Inputs of the largest block, which smaller ones share.
        self._inputs = [self._zeros(0, product.shape[1]) for product in self._products]
        self._rooms: dict[int, Room] = {}
        self._make_sums(1)

    def accepts(self, X: torch.Tensor) -> bool:
        """Return whether the outer-product identity holds for such a batch (B, ...)."""
        return (X.dim() == 2 or (self._stack.flattens and X.dim() > 2)) and self._stack.holds

    def _rows_of_block(self, rows: int) -> int:
        return rows_within(rows, self._width, _BLOCK_ELEMENTS)

    def _person_blocks(self, most: int, rows: int) -> tuple[int, Callable[[int], int]]:
        largest = rows_for(most, self._rows_of_block(PERSON_BLOCKS[-1]))
        return largest, lambda n: person_block(n, largest)

    def _of_block(self, block: Block) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
        """Return inputs and then upstream gradients of the layers, squared norms and outputs."""
        room = self._room(len(block.X))
        with torch.inference_mode():
            saved, output = self._forward(block.X, room)
            deltas = self._backward(self._output_gradient(output, block.targets), saved)
            for layer in self._stack.tail:
                output = layer(output)
            vectors = [*room.inputs, *deltas]
            squares = self._squared_norms(vectors, room)
            if block.persons is not None:
                sides = list(zip(room.inputs, deltas, strict=True))
                squares = squares_of_means(block.persons, squares, sides, self.product_terms)
            return vectors, squares, output

    def _block_sums(
        self,
        vectors: list[torch.Tensor],
        squares: torch.Tensor,
        max_norm: float | torch.Tensor,
        weights: torch.Tensor,
        block: Block,
    ) -> torch.Tensor:
        if len(self._sums) != len(weights):
            self._make_sums(len(weights))
        persons, n = block.persons, block.n
        with torch.inference_mode():
            factors, all_finite = clip_factors(squares, max_norm, self.margin)
            coefficients = weights * factors[: weights.shape[1]]
            if persons is not None:
                coefficients = shares(persons, coefficients, len(block.X))
                factors = factors if all_finite else shares(persons, factors, len(block.X))
            if not all_finite:
                blank = (factors == 0).unsqueeze(1)
                vectors = [vector.masked_fill(blank, 0.0) for vector in vectors]
            # Made-up rows weigh nothing, and in which order others are added is of no account.
            vectors, columns = [v[:n] for v in vectors], coefficients[:, :n].unsqueeze(2)
            inputs, deltas = vectors[: len(self._slots)], vectors[len(self._slots) :]
            if len(columns) == 1:
                column = columns[0]
                self._weighted_sum(inputs, [d.mul_(column) for d in deltas], self._parts[0])
            else:
                for column, parts in zip(columns, self._parts, strict=True):
                    pick = _picker(column)  # micro-batches share no record
                    scaled = [pick(d) * pick(column) for d in deltas]
                    self._weighted_sum([pick(a) for a in inputs], scaled, parts)
        return self._sums if block.alone else self._sums.clone()

    def _forward(
        self, X: torch.Tensor, room: Room
    ) -> tuple[list[list[torch.Tensor]], torch.Tensor]:
        """Keep the inputs of the trained layers; return the state for backward, and the output."""
        stack = self._stack
        value = X.flatten(1) if stack.flattens else X
        if stack.before:
            value = value.clone()
            for activation in stack.before:
                value = activation.forward(value)
        saved = []
        for index, layer in enumerate(stack.linears):
            if index >= self._first and self._used[index - self._first]:
                room.columns[index - self._first].copy_(value)
            value = self.products.linear(value, layer.weight, layer.bias)
            kept = []
            for position, activation in enumerate(stack.between[index]):
                before = value
                if activation.in_place and position:
                    # The activation before this one may have saved its output.
                    value = value.clone()
                value = activation.forward(value)
                kept.append(value if activation.in_place else before)
            saved.append(kept)
        return saved, value

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
            check_losses(losses, output.shape[:1])
            return torch.autograd.grad(losses.sum(), leaf)[0]

    def _backward(self, delta: torch.Tensor, saved: list[list[torch.Tensor]]) -> list[torch.Tensor]:
        """Return the upstream gradients of the trained layers, first layer first."""
        deltas = [delta.double()]
        for index in range(len(self._stack.linears) - 1, self._first, -1):
            delta = self.products.matmul(delta, self._stack.linears[index].weight)
            steps = zip(self._stack.between[index - 1], saved[index - 1], strict=True)
            for activation, kept in reversed(list(steps)):
                delta = activation.backward(delta, kept)
            deltas.append(delta.double())
        return deltas[::-1]

    def _squared_norms(self, vectors: list[torch.Tensor], room: Room) -> torch.Tensor:
        for vector, norm in zip(vectors, room.of_each, strict=True):
            torch.linalg.vector_norm(vector, dim=1, out=norm)
        # Both at once: squares, and the offsets that make upper bounds of them.
        squares = torch.addcmul(self._offsets, room.norms, room.norms)
        input_squares, delta_squares = squares.chunk(2)
        return input_squares.mul_(delta_squares).sum(0)

    def _weighted_sum(
        self, inputs: list[torch.Tensor], scaled: list[torch.Tensor], parts: list[Part]
    ) -> None:
        """Add up gradients of records, given times their coefficients, into parts of a vector."""
        for value, delta, product in zip(inputs, scaled, self._products, strict=True):
            torch.mm(delta.t(), value, out=product)
        for part, of_product in parts:
            part.copy_(of_product)

    def _make_sums(self, n_sums: int) -> None:
        """Make room for sums, with each layer's part of them and of its product."""
        self._sums = self._zeros(n_sums, self._size)
        self._parts: list[list[Part]] = [[] for _ in self._sums]
        of_layers = list(zip(self._products, self._slots, self._used, strict=True))
        for total, parts in zip(self._sums, self._parts, strict=True):
            for product, (weight, bias), used in of_layers:
                if weight is not None:
                    parts.append((total[weight.slice].view(weight.shape), product[:, :used]))
                if bias is not None:
                    parts.append((total[bias.slice], product[:, used]))

    def _room(self, rows: int) -> Room:
        if rows in self._rooms:
            return self._rooms[rows]
        if len(self._inputs[0]) < rows:
            self._rooms.clear()
            self._inputs = [self._zeros(rows, buffer.shape[1]) for buffer in self._inputs]
            of_layers = zip(self._inputs, self._used, self._slots, strict=True)
            for buffer, used, (_, bias) in of_layers:
                buffer[:, used] = float(bias is not None)
        norms = self._zeros(2 * len(self._inputs), rows)
        inputs = [buffer[:rows] for buffer in self._inputs]
        columns = [buffer[:, :used] for buffer, used in zip(inputs, self._used, strict=True)]
        self._rooms[rows] = Room(inputs, columns, norms, norms.unbind(0))
        return self._rooms[rows]


def _picker(column: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Take the rows that a column (n, 1) is not zero for: a view where they stand together."""
    member = column[:, 0].nonzero().squeeze(1)
    n = len(member)
    start, stop = (int(member[0]), int(member[-1]) + 1) if n else (0, 0)
    if stop - start == n:
        return lambda tensor: tensor[start:stop]
    return lambda tensor: tensor.index_select(0, member)
