"""Noisy moments: sums over all rows of bounded vectors and their squares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from skfairdp.engine.clipping.norms import row_capacity, sum_margin
from skfairdp.engine.moment_bounds import LARGEST_TARGET, QUADRATIC, l1_bounds, l2_bounds
from skfairdp.engine.row_blocks import PairwiseSum, blocks
from skfairdp.privacy.meter import Meter
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import LaplaceSum, Plan, Segment
from skfairdp.records.facts import records_of
from skfairdp.records.persons import Persons, root_shares

# Rows are cut to a ball that is smaller by this share, so that rounding in a record's own
# norm and products cannot carry it over the bound that is charged; sums have a margin of theirs.
_MARGIN = 1e-9
_ROWS = 256


@dataclass(frozen=True)
class Moments:
    """Released sums."""

    linear: np.ndarray  # (m, d): noisy ``sum_i t_i z_i``: one row, or one for each cell
    # (m, d, d): noisy ``sum_i z_i z_i^T / 8``, symmetric; positive definite only by chance
    quadratic: np.ndarray


def moment_margin(weights: Sequence[float], expected: float, n_rows: int) -> float:
    """Share by which rows are shortened for the rounding of their sums.

    `weights`: of the cells that are summed. `expected`: number of rows that the plan was made
    for. Raises ValueError: there are many more rows, or the weights differ too much.
    """
    # Cells are added up once more.
    return sum_margin(_ROWS, row_capacity(expected, n_rows), weights, len(weights) + 4)


class MomentSums:
    """Turn private rows into noisy first and second moments, as the plan says.

    `rows` (n, d): private rows; longer ones are shortened to the unit L2 ball. `targets` (n,): a
    number for each row, cut to [-1/2, 1/2]. `codes` (n,): cell of each row; negative for rows
    that contribute to nothing. `persons`: whose rows they are; the mean of a person's is summed.
    `plan`: what was charged. Every release is drawn from it. `expected`: number of records that
    the plan was made for. `meter`: what is still to be released.

    Notes
    -----
    Sums are float64, and rows are shortened by what the rounding of a sum can move
    (:mod:`skfairdp.engine.clipping.norms`). Of the symmetric matrix the upper triangle is noised
    and mirrored: the lower one repeats it, and its own noise would neither protect nor help.
    """

    def __init__(
        self,
        rows: np.ndarray,
        targets: np.ndarray,
        codes: np.ndarray,
        plan: Plan,
        noise: NoiseSource,
        *,
        expected: float,
        persons: Persons | None = None,
    ) -> None:
        self.meter = Meter(plan)
        self._expected = expected
        rows = np.asarray(rows, dtype=np.float64)
        with np.errstate(over="ignore"):
            norms = np.sqrt(np.square(rows).sum(axis=1))
        finite = np.isfinite(norms) & np.isfinite(targets)
        factors = np.where(finite, (1.0 - _MARGIN) / np.maximum(norms, 1.0), 0.0)
        self._rows = np.where(finite[:, None], rows, 0.0) * factors[:, None]
        limit = LARGEST_TARGET * (1.0 - _MARGIN)
        self._targets = np.clip(np.where(finite, targets, 0.0), -limit, limit)
        self._n_records, _ = records_of(persons, len(rows))
        # t z and z z^T of each of r rows count an r-th part; one rounding is in _MARGIN.
        share = root_shares(persons, codes)
        self._rows *= share[:, None]
        self._targets *= share
        self._codes = codes
        self._noise = noise

    def gaussian(self, segment: Segment, *, each_cell: bool = False) -> Moments:
        """Release both sums with Gaussian noise.

        `segment`: one step on all rows, with a block for the linear and one for the quadratic
        part: weights and noise. The noise of the quadratic part is isotropic among symmetric
        matrices: `noise_std` on the diagonal, ``noise_std / sqrt(2)`` on each of two mirrored
        entries. `each_cell`: release every cell's sums, each with its own noise, and not their
        weighted total.
        """
        linear, quadratic = segment.blocks
        self._check(linear.max_norm, quadratic.max_norm, l2_bounds())
        if set(segment.rates) != {1.0}:
            raise ValueError(
                f"Moments are sums over all rows: plan sampling rates of 1; got {segment.rates!r}."
            )
        self.meter.draw(segment)
        blocks = linear, quadratic
        first, diagonal = (b.cell_noise_std if each_cell else b.noise_std for b in blocks)
        scales = first, diagonal, diagonal / math.sqrt(2.0)
        noisy = partial(self._noise.noisy, exact=self.meter.plan.exact_noise)
        return self._release(linear.weights, quadratic.weights, each_cell, noisy, scales)

    def laplace(
        self, linear: LaplaceSum, quadratic: LaplaceSum, *, each_cell: bool = False
    ) -> Moments:
        """Release both sums with Laplace noise, on the upper triangle of the quadratic one.

        `each_cell`: see `gaussian`.
        """
        self._check(linear.max_norm, quadratic.max_norm, l1_bounds(self._rows.shape[1]))
        self.meter.draw(linear)
        self.meter.draw(quadratic)
        scales = linear.scale, quadratic.scale, quadratic.scale
        noisy = self._noise.laplace_on_grid
        return self._release(linear.weights, quadratic.weights, each_cell, noisy, scales)

    @staticmethod
    def _check(linear: float, quadratic: float, bounds: tuple[float, float]) -> None:
        # A plan that charges less than a record can move must never reach the rows.
        if linear < bounds[0] or quadratic < bounds[1]:
            raise ValueError(
                f"The plan bounds the sums of one record by {linear:g} and {quadratic:g}, but a "
                f"row in the unit ball can reach {bounds[0]:g} and {bounds[1]:g}: plan these norms."
            )

    def _release(
        self,
        linear_weights: Sequence[float],
        quadratic_weights: Sequence[float],
        each_cell: bool,
        noisy: Callable[[np.ndarray, float], np.ndarray],
        scales: tuple[float, float, float],
    ) -> Moments:
        """`scales`: of the noise of the linear sum, the diagonal and what is above it."""
        d = self._rows.shape[1]
        n_sums = len(linear_weights) if each_cell else 1
        linear, quadratic = np.zeros((n_sums, d)), np.zeros((n_sums, d, d))
        margin = max(
            moment_margin((1.0,) if each_cell else weights, self._expected, self._n_records)
            for weights in (linear_weights, quadratic_weights)
        )
        for cell, (w, v) in enumerate(zip(linear_weights, quadratic_weights, strict=True)):
            member = self._codes == cell
            rows, targets = self._rows[member] * (1.0 - margin), self._targets[member]
            of_targets, of_rows = PairwiseSum(), PairwiseSum()
            for part in blocks(len(rows), _ROWS):
                Z = torch.from_numpy(rows[part])
                of_targets.add(torch.from_numpy(targets[part]) @ Z)
                of_rows.add(Z.T @ Z)
            where = cell if each_cell else 0
            if (total := of_targets.total()) is not None:
                linear[where] += w * total.numpy()
            if (total := of_rows.total()) is not None:
                quadratic[where] += (v * QUADRATIC) * total.numpy()
        diagonal, (above, beyond) = np.arange(d), np.triu_indices(d, 1)
        released = np.empty_like(quadratic)
        linear = noisy(linear, scales[0])
        released[:, diagonal, diagonal] = noisy(quadratic[:, diagonal, diagonal], scales[1])
        released[:, above, beyond] = noisy(quadratic[:, above, beyond], scales[2])
        released[:, beyond, above] = released[:, above, beyond]
        return Moments(linear, released)
