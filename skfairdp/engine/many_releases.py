"""Noisy gradients of many linear models over the same rows, in one pass.

Each model draws a Poisson sample and noise of its own, from a release with a plan of its own.
Given all that the others were shown, a model's step is then the mechanism that its plan
charges, and the costs of the models compose as those of lone fits do (adaptive composition). One
sample for all would not do: a record drawn once would be in the sums of every model together,
so that what they reveal jointly exceeds what the amplified costs of single steps add up to.

Products are exact, on the grid of :mod:`skfairdp.engine.exact_products`, and everything else
is done number by number in float64, in whole vectors, so that what a record adds is its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.engine.clipping.linear_stacks import linear_stack
from skfairdp.engine.clipping.norms import clip_factors, rounding_margin, row_capacity, sum_margin
from skfairdp.engine.exact_products import bits_for, on_grid
from skfairdp.engine.objectives import Objective
from skfairdp.engine.release import NoisyRelease
from skfairdp.engine.sum_margins import rows_of
from skfairdp.exceptions import PlanError
from skfairdp.privacy.plan import Segment

_VECTOR = 32
_NUMBERS_AT_ONCE = 1 << 19
# From this rate on, all rows are multiplied by all models rather than gathered for each.
_DENSE = 0.15


def one_linear_layer(module: nn.Module) -> nn.Linear | None:
    """Return the layer of a module that is nothing but a linear layer in float32."""
    stack = linear_stack(module)
    if stack is None or len(stack.linears) > 1 or stack.before or stack.tail or stack.dropouts:
        return None
    (layer,) = stack.linears
    trained = [p.requires_grad and p.dtype == torch.float32 for p in layer.parameters()]
    return layer if len(trained) == 2 and all(trained) else None


def refuse_unbounded(segment: Segment, n_rows: int) -> float:
    """Clip norm of a step that leaves room for the rounding of its sum, in any order.

    Raises ValueError: there are too many rows for that.
    """
    (block,) = segment.blocks
    capacity = row_capacity(segment.expected_sizes[0] / segment.rates[0], n_rows)
    rows = rows_of(segment) + capacity  # whatever is drawn is added in one go
    return block.max_norm * (1.0 - sum_margin(rows, capacity, block.weights))


class ManyReleases:
    """Steps of linear models that are taken at the same time.

    `releases`: one of each model, over the same rows. `segments`: the one segment of each plan.
    `objective`: of all models; its derivative is known. `weights` (M, K, p), `biases` (M, K): of
    all models, which the caller moves.
    """

    def __init__(
        self,
        releases: Sequence[NoisyRelease],
        segments: Sequence[Segment],
        objective: Objective,
        weights: Tensor,
        biases: Tensor,
    ) -> None:
        self._releases, self._segments, self._objective = releases, segments, objective
        self._weights, self._biases = weights, biases
        X, (target, *_) = releases[0]._rows.X, releases[0]._rows.targets
        if len(X) != len(releases[0]._rows.codes):
            raise PlanError("Models are trained together on rows that are in memory.")
        # The row of zeros behind the others fills up what is drawn.
        n, p = X.shape
        self._n, size = n, -(-(n + 1) // _VECTOR) * _VECTOR
        self._X = X.new_zeros((size, p), dtype=torch.float64)
        self._X[:n] = on_grid(X, 1, bits_for(p))
        dtype = torch.float64 if target.is_floating_point() else target.dtype
        self._target = target.new_zeros(size, dtype=dtype)
        self._target[:n] = target
        tiny = torch.finfo(torch.float64).tiny
        self._squares = torch.linalg.vector_norm(self._X, dim=1).square_().add_(p * tiny + 1)
        self._X.nan_to_num_(nan=0.0)  # such a row has no norm, and adds nothing
        k = weights.shape[1]
        self._delta_offset = k * tiny
        self._margin = rounding_margin(torch.float64, p + k + 1)
        limits = [refuse_unbounded(segment, n) for segment in segments]
        self._limits = torch.tensor(limits, dtype=torch.float64).unsqueeze(1)
        of_each = [segment.blocks[0].weights[0] for segment in segments]
        self._factors = torch.tensor(of_each, dtype=torch.float64).unsqueeze(1)

    def gradients(self) -> Tensor:
        """Release the noisy sums of one step of every model.

        Result (M, K * p + K): float64.
        """
        drawn = []
        for release, segment in zip(self._releases, self._segments, strict=True):
            release.meter.draw(segment)
            drawn.append(release._sampler.draw(segment.rates).rows)
        m, k, p = self._weights.shape
        grid = on_grid(self._weights, 2, bits_for(p))
        sums = grid.new_empty((m, k * p + k))
        rate = max(segment.rates[0] for segment in self._segments)
        widest = len(self._X) if rate > _DENSE else max(map(len, drawn))
        at_once = max(1, _NUMBERS_AT_ONCE // (widest * p if rate <= _DENSE else widest * k + 1))
        for start in range(0, m, at_once):
            part = slice(start, start + at_once)
            if rate > _DENSE:
                self._dense(part, drawn[part], grid[part], sums[part])
            else:
                self._gathered(part, drawn[part], grid[part], sums[part])
        return torch.stack(
            [
                release._noisy(total, segment.blocks[0].noise_std)
                for release, segment, total in zip(
                    self._releases, self._segments, sums, strict=True
                )
            ]
        )

    def _dense(self, part: slice, drawn: list[np.ndarray], grid: Tensor, sums: Tensor) -> None:
        m, k, p = grid.shape
        logits = (grid.view(m * k, p) @ self._X.t()).view(m, k, -1).transpose(1, 2)
        member = np.zeros((m, len(self._X)), dtype=bool)
        for row, rows in zip(member, drawn, strict=True):
            row[rows] = True
        target = self._target.repeat(m)
        slopes = self._slopes(part, logits, target, self._squares, torch.from_numpy(member))
        slopes = slopes.transpose(1, 2)
        sums[:, : k * p] = (slopes.reshape(m * k, -1) @ self._X).view(m, k * p)
        sums[:, k * p :] = slopes.sum(2)

    def _gathered(self, part: slice, drawn: list[np.ndarray], grid: Tensor, sums: Tensor) -> None:
        m, k, p = grid.shape
        width = -(-max(1, *map(len, drawn)) // _VECTOR) * _VECTOR
        index = np.full((m, width), self._n)
        for row, rows in zip(index, drawn, strict=True):
            row[: len(rows)] = rows
        where = torch.from_numpy(index)
        flat = where.view(-1)
        X = self._X.index_select(0, flat).view(m, width, p)
        logits = torch.bmm(X, grid.transpose(1, 2))
        squares = self._squares.index_select(0, flat).view(m, width)
        target = self._target.index_select(0, flat)
        slopes = self._slopes(part, logits, target, squares, where != self._n).transpose(1, 2)
        sums[:, : k * p] = torch.bmm(slopes, X).view(m, k * p)
        sums[:, k * p :] = slopes.sum(2)

    def _slopes(
        self, part: slice, logits: Tensor, target: Tensor, squares: Tensor, member: Tensor
    ) -> Tensor:
        """Clipped and weighted derivatives of the losses by the logits, (M, R, K)."""
        logits = logits + self._biases[part].unsqueeze(1)
        delta = self._objective.gradient(logits.reshape(-1, logits.shape[2]), target)
        assert delta is not None  # asked for before
        slopes = delta.view(logits.shape)
        norms = slopes.square().sum(2).add_(self._delta_offset).mul_(squares)
        factors, all_finite = clip_factors(norms, self._limits[part], self._margin)
        if not all_finite:
            slopes = slopes.masked_fill((factors == 0).unsqueeze(2), 0.0)
        return slopes.mul_(factors.mul_(self._factors[part]).mul_(member).unsqueeze(2))
