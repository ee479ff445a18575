"""Noisy gradients of many linear models over the same rows, in one pass.

Each model has its own plan, Poisson samples and noise.
Given all that the others were shown, a model's step is then the mechanism that its plan
charges, and the costs of the models compose as those of lone fits do (adaptive composition). One
sample for all would not do: a record drawn once would be in the sums of every model together,
so that what they reveal jointly exceeds what the amplified costs of single steps add up to.

Products are exact, on the grid of :mod:`skfairdp.engine.exact_products`, and everything else
is done number by number in float64, in whole vectors, so that what a record adds is its own.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.engine.clipping.norms import (
    clip_factors,
    rounding_margin,
    row_capacity,
    rows_of,
    sum_margin,
)
from skfairdp.engine.exact_products import bits_for, on_grid
from skfairdp.engine.modules import linear_stack
from skfairdp.engine.objectives import Objective
from skfairdp.engine.release import NoisyRelease
from skfairdp.exceptions import PlanError
from skfairdp.privacy.noise import grid_step, whole_steps
from skfairdp.privacy.plan import Segment

_VECTOR = 32
_NUMBERS_AT_ONCE = 1 << 16
_NOISE_AHEAD = 1 << 18
# From this rate on, all rows are multiplied by all models rather than those that each draws.
_DENSE = 0.2


def one_linear_layer(module: nn.Module) -> nn.Linear | None:
    """Return the layer of a module that is nothing but a linear layer in float32."""
    stack = linear_stack(module)
    if stack is None or len(stack.linears) > 1 or stack.before or stack.tail or stack.dropouts:
        return None
    (layer,) = stack.linears
    trained = [p.requires_grad and p.dtype == torch.float32 for p in layer.parameters()]
    return layer if len(trained) == 2 and all(trained) else None


def refuse_unbounded(segment: Segment, n_rows: int) -> float:
    """Clipping norm of a step that leaves room for the rounding of its sum, in any order.

    Raises ValueError: there are too many rows for that.
    """
    (block,) = segment.blocks
    capacity = row_capacity(segment.expected_sizes[0] / segment.rates[0], n_rows)
    rows = rows_of(segment) + capacity  # whatever is drawn is added in one go
    return block.max_norm * (1.0 - sum_margin(rows, capacity, block.weights))


@dataclass(eq=False, repr=False)
class ManyReleases:
    """Steps of linear models that are taken at the same time."""

    _releases: Sequence[NoisyRelease]  # One of each model, over the same rows
    _segments: Sequence[Segment]  # The one segment of each plan
    _objective: Objective  # Of all models; its derivative is known
    _weights: Tensor  # (M, K, p): of all models, which the caller moves
    _biases: Tensor  # (M, K)

    def __post_init__(self) -> None:
        releases, segments = self._releases, self._segments
        pairs = zip(releases, segments, strict=True)
        self._drawing = [release._batches.sampler.drawing(s.rates)[0] for release, s in pairs]
        X, (target, *_) = releases[0]._rows.X, releases[0]._rows.targets
        if len(X) != len(releases[0]._rows.codes):
            raise PlanError(
                "Models can be trained together on rows in memory alone: load the rows, or fit "
                "one by one."
            )
        # Rows of zeros behind the others fill up what is drawn; the last column is the bias's.
        (n, p), (m, k) = X.shape, self._biases.shape
        self._n, size = n, -(-(n + 1) // _VECTOR) * _VECTOR
        self._X = X.new_zeros((size, p + 1), dtype=torch.float64)
        self._X[:n, :p] = on_grid(X, 1, bits_for(p))
        dtype = torch.float64 if target.is_floating_point() else target.dtype
        self._target = target.new_zeros(size, dtype=dtype)
        self._target[:n] = target
        tiny = torch.finfo(torch.float64).tiny
        self._squares = torch.linalg.vector_norm(self._X, dim=1).square_().add_(p * tiny + 1)
        self._X.nan_to_num_(nan=0.0)  # such a row has no norm, and adds nothing
        self._X[:n, p] = 1.0
        self._grid = self._X.new_zeros((m, k, p + 1))
        self._delta_offset = k * tiny
        self._margin = rounding_margin(torch.float64, p + k + 1)
        limits = [refuse_unbounded(segment, n) for segment in segments]
        of_each = [segment.blocks[0].weights[0] for segment in segments]
        self._alike = len({*zip(limits, of_each, strict=True)}) == 1
        both = torch.tensor([limits, of_each], dtype=torch.float64)
        self._limits, self._factors = both[:, :1] if self._alike else both
        rate = max(segment.rates[0] for segment in segments)
        self._dense = rate > _DENSE
        rows = size if self._dense else int(n * rate) + 1
        self._at_once = max(1, _NUMBERS_AT_ONCE // (rows * k))
        self._noise = self._X.new_empty((0, m, 0))
        stds = [segment.blocks[0].noise_std for segment in segments]
        exact = [release.meter.plan.exact_noise for release in releases]
        grids = [grid_step(std) for std, on in zip(stds, exact, strict=True) if on and std > 0.0]
        self._on_grid = torch.tensor([on and s > 0.0 for on, s in zip(exact, stds, strict=True)])
        self._steps = np.array(grids).reshape(-1, 1)
        self._process = os.getpid()

    def gradients(self) -> Tensor:
        """Release the noisy sums of one step of every model.

        Result (M, K * p + K): float64.
        """
        m, k, p = self._weights.shape
        # Numbers ahead are not for a forked process, which has other ones.
        if not len(self._noise) or self._process != os.getpid():
            self._draw_noise(k * p + k)
        noise, self._noise = self._noise[0], self._noise[1:]
        drawn = [rows() for rows in self._drawing]
        self._grid[:, :, :p] = on_grid(self._weights, 2, bits_for(p))
        sums = self._grid.new_empty((m, k, p + 1))
        for start in range(0, m, self._at_once):
            part = slice(start, start + self._at_once)
            (self._of_all if self._dense else self._of_drawn)(part, drawn[part], sums[part])
        flat = torch.cat([sums[:, :, :p].reshape(m, k * p), sums[:, :, p]], dim=1)
        whole = whole_steps(flat[self._on_grid].numpy(), self._steps)
        flat[self._on_grid] = torch.from_numpy(whole)
        noise.add_(flat)  # in the place of the noise, of which nothing is left
        noise[self._on_grid] *= torch.from_numpy(self._steps)
        return noise

    def _draw_noise(self, size: int) -> None:
        """Draw the noise of some steps from the stream of each model, and meter these steps."""
        m, self._process = len(self._releases), os.getpid()
        left = self._releases[0].meter.left(self._segments[0])
        steps = max(1, min(left, _NOISE_AHEAD // (m * size)))
        noise = self._X.new_zeros((steps, m, size))
        for i, (release, segment) in enumerate(zip(self._releases, self._segments, strict=True)):
            release.meter.draw(segment, steps)
            std = segment.blocks[0].noise_std
            if self._on_grid[i]:  # in steps of the grid, until the sum is added
                whole = np.zeros((steps, size))
                release._noise.add_whole(whole)
                noise[:, i] = torch.from_numpy(whole)
            elif std > 0.0:
                noise[:, i] = torch.from_numpy(release._noise.gaussian((steps, size), std))
        self._noise = noise

    def _of_all(self, part: slice, drawn: list[np.ndarray], sums: Tensor) -> None:
        grid = self._grid[part]
        m, k, width = grid.shape
        logits = (grid.view(m * k, width) @ self._X.t()).view(m, k, -1).transpose(1, 2)
        logits = logits + self._biases[part].unsqueeze(1)
        ones = slice(None) if self._alike else part
        limits, factors = self._limits[ones].unsqueeze(1), self._factors[ones].unsqueeze(1)
        if any(len(rows) < self._n for rows in drawn):
            member = np.zeros((m, len(self._X)), dtype=bool)
            for row, rows in zip(member, drawn, strict=True):
                row[rows] = True
            factors = torch.from_numpy(member) * factors
        slopes = self._slopes(logits, self._target.repeat(m), self._squares, limits, factors)
        slopes = slopes.transpose(1, 2).reshape(m * k, -1)
        torch.matmul(slopes, self._X, out=sums.view(m * k, width))

    def _of_drawn(self, part: slice, drawn: list[np.ndarray], sums: Tensor) -> None:
        """Products of the drawn rows alone, whose numbers are the columns of a sparse matrix."""
        counts = np.array([len(rows) for rows in drawn])
        missing = -int(counts.sum()) % _VECTOR
        counts[-1] += missing
        rows = torch.from_numpy(np.concatenate([*drawn, np.full(missing, self._n)]))
        starts = torch.from_numpy(np.cumsum([0, *counts]))
        model = torch.from_numpy(np.repeat(np.arange(len(drawn)), counts))

        def of_rows(values: Tensor) -> Tensor:
            return _csr(starts, rows, values, (len(drawn), len(self._X)))

        logits = self._biases[part].double()[model]
        for j in range(logits.shape[1]):
            products = of_rows(logits.new_zeros(len(rows)))
            weights = self._grid[part, j]
            torch.sparse.sampled_addmm(products, weights, self._X.t(), beta=0.0, out=products)
            logits[:, j] += products.values()
        limits, factors = self._limits, self._factors
        if not self._alike:
            limits, factors = limits[part][model], factors[part][model]
        slopes = self._slopes(logits, self._target[rows], self._squares[rows], limits, factors)
        for j in range(logits.shape[1]):
            sums[:, j] = of_rows(slopes[:, j].contiguous()) @ self._X

    def _slopes(
        self, logits: Tensor, target: Tensor, squares: Tensor, limits: Tensor, factors: Tensor
    ) -> Tensor:
        """Clipped and weighted derivatives of the losses by the logits, (..., K)."""
        delta = self._objective.gradient(logits.reshape(-1, logits.shape[-1]), target)
        assert delta is not None  # asked for before
        slopes = delta.view(logits.shape)
        # Column by column: the order of additions depends on nothing else.
        norms = torch.zeros_like(slopes[..., 0])
        for column in slopes.unbind(-1):
            norms.addcmul_(column, column)
        norms.add_(self._delta_offset).mul_(squares)
        scale, all_finite = clip_factors(norms, limits, self._margin)
        if not all_finite:
            slopes = slopes.masked_fill((scale == 0).unsqueeze(-1), 0.0)
        return slopes.mul_((scale * factors).unsqueeze(-1))


def _csr(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    _announce()
    return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)


@cache
def _announce() -> None:
    """Silence torch's warning that sparse matrices are in beta: the used functions are tested."""
    empty = torch.empty(0, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.sparse_csr_tensor(empty.new_zeros(1), empty, empty.double(), (0, 0))
