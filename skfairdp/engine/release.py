"""Noisy sums of private rows. No other module reads training rows once the plan exists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.engine.batch_sums import BatchSums, Rows, Statistic
from skfairdp.engine.clipping.base import Clipper
from skfairdp.engine.clipping.norms import rows_of
from skfairdp.engine.inference import outputs_by_row
from skfairdp.engine.public_features import PublicBatch, PublicFeatures
from skfairdp.exceptions import PlanError
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums, prefix_norm, within_norm
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import (
    GRID_FAILURE,
    LEAST_MULTIPLIER,
    MOST_NUMBERS,
    Block,
    CountRelease,
    Plan,
    Segment,
)
from skfairdp.privacy.relations import NEIGHBOURS

__all__ = ["HeadSums", "NoisyRelease", "Rows", "Statistic"]


@dataclass(frozen=True)
class HeadSums:
    """Released sums of a step whose head is trained on micro-batches."""

    # (p,): noisy weighted sum for the parameters of the body; 0 for those of the head
    vector: Tensor
    # (n_heads, p_head): noisy weighted sum of each micro-batch for the head's parameters
    heads: Tensor


class NoisyRelease(BatchSums):
    """Turn private rows into noisy clipped sums, as the plan says.

    Sums are formed in float64, and a record's bound is lowered by what their rounding can
    move (:mod:`skfairdp.engine.clipping.norms`). The noise is drawn and added in float64,
    unless it is exact. Nothing else in the package reads training rows once a plan has been made.
    """

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row's features, which is public."""
        return tuple(self._rows.X.shape[1:])

    def public_rows(self, clipper: Clipper, others: tuple[int, ...] = ()) -> PublicFeatures:
        """Hand out features and labels, where the plan protects the sensitive feature alone.

        `clipper`: sums gradients of an objective that takes the labels and nothing else.
        `others`: what public rows have for each target after the labels, in a sum they join.
        Result: knows neither groups nor the batches of this release, and draws its own.
        """
        relation = self.meter.plan.adjacency
        if not NEIGHBOURS[relation].public_rows:
            raise PlanError(f"Rows are not public under adjacency={relation!r}: use gradient().")
        return PublicFeatures(
            self._rows.X, self._rows.targets[:1], clipper, self._noise.key(), others
        )

    def beside(self, plan: Plan, noise: NoiseSource) -> NoisyRelease:
        """Make a release of another plan over the same rows, with its own batches and noise."""
        return NoisyRelease(self._rows, plan, self._clipper, noise)

    @property
    def joins(self) -> bool:
        """Whether public rows may join a sum.

        Not where layers draw: the position of their stream reveals the size of the batch.
        """
        return self._clipper.draws_nothing(self._rows.X)

    def gradient(
        self,
        segment: Segment,
        *,
        cell_weights: np.ndarray | None = None,
        public: PublicBatch | None = None,
    ) -> Tensor:
        """Release the noisy weighted sum of clipped gradients of a fresh batch.

        `segment`: rates, weights, norm and noise of the step. `cell_weights` (n_cells,).
        `public`: as in `gradient_and_statistic`. Result (p,): on the device of the module.
        """
        return self._gradient(segment, cell_weights, public)[0]

    def gradient_and_statistic(
        self,
        segment: Segment,
        statistic: Statistic,
        *,
        cell_weights: np.ndarray | None = None,
        public: PublicBatch | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Release a gradient sum and the sum of a statistic of the same fresh batch.

        Both come from one forward pass. The plan charges them as one query, because
        they share the batch.

        `segment`: with two blocks: the gradient's, then the statistic's. `cell_weights`
        (n_cells,): where the plan reveals every cell's noisy sum: combine these with weights that
        follow from earlier releases. The cells' noises are then drawn as one, with the summed
        variance, which has the same law. `public`: where the plan protects the sensitive feature
        alone: rows whose mean gradient, not clipped, is added to the noisy sum. One forward pass
        serves both batches. Only where `joins` holds. Result `gradient` (p,); `statistic` (m,).
        """
        outputs: list[Tensor] = []
        gradient, batch, targets = self._gradient(segment, cell_weights, public, outputs)
        _, block = segment.blocks
        return gradient, self._statistic_sum(segment, block, batch, statistic, outputs, targets)

    def statistic(self, segment: Segment, statistic: Statistic, module: nn.Module) -> Tensor:
        """Release the sum of a statistic of a fresh batch, and no gradient.

        `module`: its outputs, as at prediction, are what the statistic reads; it holds released
        weights. Result (m,).
        """
        batch = self._batch(segment)
        X, targets = self._take(batch.rows, rows_of(segment))
        outputs = [outputs_by_row(module, X, rows_of(segment))] if len(X) else []
        block = segment.blocks[0]
        return self._statistic_sum(segment, block, batch, statistic, outputs, targets)

    def adaptive_gradient(
        self,
        segment: Segment,
        base_norm: float,
        choose: Callable[[np.ndarray], np.ndarray],
    ) -> tuple[Tensor, np.ndarray]:
        """Release how many gradients of each cell are long, then sums clipped accordingly.

        Both queries read one batch; the second may depend on the noisy answers of the
        first, which the plan charges as one query.

        `segment`: with two blocks: the counts', then the gradient's. The gradient's are in units
        of the largest clipping norm: its vectors are divided by that norm, which follows from
        released values, before they meet the noise. `base_norm`: a gradient above this L2 norm
        counts as long. `choose`: maps the noisy counts, shape (n_cells, 2) with columns "long"
        and "not long", to the clipping norm of every cell, shape (n_cells,), > 0. Result `gradient`
        (p,): in units of the gradients: multiplied by the largest clipping norm again; `norms`
        (n_cells,): the clipping norms.
        """
        if segment in self._tables:
            self._refuse_table(segment)
        count_block, block = segment.blocks
        if set(count_block.weights) != {1.0} or count_block.max_norm < 1.0:
            raise PlanError(
                "A record adds one to a count: plan weights of 1, and a norm of 1; got the weights "
                f"{count_block.weights} and the norm {count_block.max_norm:g}."
            )
        self._refuse_shared_noise(block)
        n_cells, rows = len(segment.rates), rows_of(segment)
        limit = self._limit(segment, block)
        batch = self._batch(segment)
        X, targets = self._take(batch.rows, rows)
        # NaN counts as not long, so that every drawn record adds one to one count.
        norms = self._clipper.norms(X, targets, rows, batch.persons)
        long = (norms > base_norm).cpu().numpy()[: len(batch)]
        cell = np.repeat(np.arange(n_cells), batch.sizes)
        counts = np.bincount(2 * cell + ~long, minlength=2 * n_cells).reshape(n_cells, 2)
        noisy = self._noisy(torch.from_numpy(counts.astype(np.float64)), count_block.noise_std)
        counts = noisy.numpy()
        chosen = np.asarray(choose(counts), dtype=np.float64)
        largest = float(chosen.max())  # over all cells, whether drawn or not
        limits = self._rows.tensor(chosen[cell]) * limit
        weights = self._spread(batch, tuple(w / largest for w in block.weights))
        total = self._clipper.clipped_sums(
            X, targets, limits, weights, rows=rows, persons=batch.persons
        )
        return self._noisy(total, block.noise_std).mul_(largest), chosen

    def heads(
        self,
        segment: Segment,
        head: slice,
        *,
        radii: tuple[float, ...],
        head_scale: float,
    ) -> HeadSums:
        """Release a step whose head is trained on ``segment.n_heads`` micro-batches.

        Every sampled record draws its micro-batch uniformly and by itself before
        any gradient is computed. The head part of each cell's sum in each
        micro-batch is projected on its own ball, which cannot raise the
        sensitivity: body and projected head together are a projection on a convex
        set.

        `segment`: rates, weights, norm and noise of the step. `head`: positions of the head's
        parameters in the parameter vector. `radii`: largest norm of each cell's head sum over a
        whole batch, before weighting; a micro-batch gets the n_heads-th part. `head_scale`:
        factor on the weights and on the noise of the micro-batch sums.
        """
        if segment in self._tables:
            self._refuse_table(segment)
        block = segment.blocks[0]
        self._refuse_shared_noise(block)
        n_heads, n_cells = segment.n_heads, len(segment.rates)
        # Sums over micro-batches and cells are added up once more, and projected; two leave.
        additions = n_heads * n_cells + (head.stop - head.start) + 16
        limit = self._limit(segment, block, additions, n_sums=2)
        batch = self._batch(segment)
        slot = self._batches.sampler.slots(len(batch), n_heads)
        cell = np.repeat(np.arange(n_cells), batch.sizes)
        member = np.zeros((n_heads * n_cells, len(batch)))
        member[slot * n_cells + cell, np.arange(len(batch))] = 1.0
        rows = rows_of(segment)
        X, targets = self._take(batch.rows, rows)
        sums = self._clipper.clipped_sums(
            X, targets, limit, self._rows.tensor(member), rows=rows, persons=batch.persons
        )
        sums = sums.reshape(n_heads, n_cells, -1)

        p, p_head = sums.shape[2], head.stop - head.start
        noisy = partial(
            self._noisy_heads, block=block, head=head, radii=radii, head_scale=head_scale
        )
        released = self._released(sums, noisy, sums.new_empty(p + n_heads * p_head))
        return HeadSums(vector=released[:p], heads=released[p:].reshape(n_heads, p_head))

    def _noisy_heads(
        self,
        sums: Tensor,
        block: Block,
        head: slice,
        radii: tuple[float, ...],
        head_scale: float,
    ) -> Tensor:
        """Project the head's part of each cell's sums, shape (n_heads, n_cells, p); add noise."""
        cell_weights = torch.tensor(block.weights, dtype=torch.float64, device=sums.device)
        limits = torch.tensor(radii, dtype=torch.float64, device=sums.device) / len(sums)
        head_sums = sums[:, :, head]
        norms = head_sums.norm(dim=2)
        shrink = torch.where(norms > limits, limits / norms.clamp_min(1e-300), 1.0)
        weighted = (head_sums * shrink[:, :, None] * cell_weights[None, :, None]).sum(dim=1)
        vector = (sums.sum(dim=0) * cell_weights[:, None]).sum(dim=0)
        vector = self._with_noise(vector, block.noise_std)
        vector[head] = 0.0  # the step is charged once: the head's part leaves below alone
        heads = self._with_noise(weighted * head_scale, block.noise_std * head_scale)
        return torch.cat([vector, heads.flatten()])

    def counts(
        self, release: CountRelease, assign: Callable[[Rows], np.ndarray], n_counts: int
    ) -> np.ndarray:
        """Release a table of counts over all rows with discrete Laplace noise.

        Of a person with several rows, one counts that is drawn by chance.

        `release`: states the epsilon of one table. `assign`: maps the rows to the count that each
        one adds to (negative for none); a row's count depends on that row and on released values
        alone. Result (n_counts,).
        """
        self.meter.draw(release)
        exact = self._counted(lambda rows: (assign(rows), np.ones(len(rows.codes))), n_counts)

        def noisy(table: Tensor) -> Tensor:
            if np.isinf(release.epsilon):
                return table
            drawn = self._noise.discrete_laplace(release.epsilon, n_counts)
            return table + torch.from_numpy(drawn)

        return self._released(torch.from_numpy(exact), noisy).numpy()

    def tables(
        self,
        segment: Segment,
        assign: Callable[[Rows], Iterable[np.ndarray]],
        sizes: Sequence[int],
    ) -> list[np.ndarray]:
        """Release several tables of counts over all rows, in each of which a record counts once.

        Of a person with several rows, one counts that is drawn by chance, the same in all tables.
        A record adds 1 to an entry of each table, so the norm of what it adds is the root of the
        number of tables, and the noise is that of the block times as much.

        `segment`: one step that takes every record: rate 1, and one block with a weight of 1.
        `assign`: maps the rows to the entries that they add to (negative for none), table by table;
        an entry depends on its row, on draws of its own and on released values alone. `sizes`: of
        the tables. Result: the tables.
        """
        (block,) = segment.blocks
        if {*segment.rates, *block.weights} != {1.0}:
            raise PlanError(
                "A table counts every record once: plan a rate and weights of 1; got the rates "
                f"{segment.rates} and the weights {block.weights}."
            )
        if sum(sizes) > MOST_NUMBERS:
            raise PlanError(
                f"Exact noise is proved for up to {MOST_NUMBERS:,} numbers at once; the tables "
                f"have {sum(sizes):,}: release fewer or smaller tables."
            )
        self.meter.draw(segment)
        counts = self._counted_tables(assign, sizes).astype(np.float64)
        # A millionth more, for the rounding of this product.
        std = block.noise_std / block.max_norm * math.sqrt(len(sizes)) * (1.0 + 2.0**-20)
        noisy = self._noisy(torch.from_numpy(counts), std).numpy()
        return np.split(noisy, np.cumsum(sizes)[:-1])

    def recode(self, inputs: nn.Module) -> None:
        """Give every row other features from now on: a module's outputs for it, in the same shape.

        The module has no weights; it holds released and public values alone.
        """

        def made(X: Tensor) -> Tensor:
            found = outputs_by_row(inputs, X).to(X.dtype)
            if found.shape != X.shape:
                raise ValueError(
                    "The module of recode() must return rows of the shape "
                    f"{('n', *X.shape[1:])}; got {('n', *found.shape[1:])}."
                )
            return found

        self._batches.recode(made)
        self._rows = replace(self._rows, X=self._batches.held[0])

    def prefix_sums(
        self,
        segment: Segment,
        assign: Callable[[Rows], tuple[np.ndarray, np.ndarray]],
        shape: tuple[int, ...],
        n_entries: int = 1,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Release all prefix sums of histograms over all rows.

        `segment`: one step that takes every record: rate 1, and one block with the noise of the
        factored histogram and `prefix_norm` as its norm. Its noise is exact in any case, cut at 16
        standard deviations: states `GRID_FAILURE`. `assign`: maps the rows to the entries of the
        table that each one adds to (negative for none), and to what it adds, 1 or -1; both depend
        on that row and on released values alone. `shape`: of the table; the last axis is that of
        the bins. `n_entries`: most entries that a record adds to; of more the first count, and in
        one histogram the first of each sign. Two of opposite signs pull against each other, so the
        norm grows with the root of their number. Result: sums, of that shape; standard deviation
        of the noise of each bin's sum.
        """
        (block,) = segment.blocks
        norm = prefix_norm(shape[-1], n_entries)
        if {*segment.rates, *block.weights} != {1.0} or block.max_norm < norm:
            raise PlanError(
                "A table of prefix sums counts every record once: plan a rate and weights of 1, "
                f"and a norm of prefix_norm({shape[-1]}, {n_entries})."
            )
        if block.noise_std > 0.0 and (
            segment.failure < GRID_FAILURE or segment.multiplier(0) < LEAST_MULTIPLIER
        ):
            raise PlanError(
                "The tails of a table's noise are cut off: plan failure=GRID_FAILURE, which holds "
                f"for multipliers from {LEAST_MULTIPLIER}."
            )
        self.meter.draw(segment)

        def of_cells(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
            entries, signs = assign(rows)
            if entries.ndim > 1:
                entries = within_norm(entries, signs, shape[-1], n_entries)
            belongs = rows.codes >= 0
            return np.where(belongs if entries.ndim == 1 else belongs[:, None], entries, -1), signs

        table = PrefixSums(shape[-1], block.noise_std)
        counts = self._counted(of_cells, math.prod(shape)).astype(np.float64).reshape(shape)

        def noisy(sums: Tensor) -> Tensor:
            return torch.from_numpy(table.release(sums.numpy().astype(np.int64), self._noise))

        return self._released(torch.from_numpy(counts), noisy).numpy(), table.stds
