"""Clipped sums over the rows of a batch, with a margin for their rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from skfairdp.engine.clipping.base import Clipper
from skfairdp.engine.clipping.norms import (
    LEAST_MARGIN,
    clip_factors,
    margin_of,
    rounding_margin,
    rows_of,
)
from skfairdp.engine.person_rows import means
from skfairdp.engine.processes import Processes
from skfairdp.engine.public_features import PublicBatch
from skfairdp.engine.row_blocks import PairwiseSum, blocks, fill
from skfairdp.exceptions import PlanError
from skfairdp.privacy.meter import Meter
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, Plan, Segment
from skfairdp.privacy.relations import NEIGHBOURS
from skfairdp.records.persons import Persons
from skfairdp.records.sampling import Batch, batches_of
from skfairdp.records.stored_rows import StoredRows, tables_of


@dataclass(frozen=True)
class Rows:
    """The private training rows, kept only while a model is trained."""

    X: Tensor  # (n, ...): features, in the dtype and on the device of the module
    targets: tuple[Tensor, ...]  # Targets of the per-record objective
    codes: np.ndarray  # (n,): cell of each row; negative for rows that contribute to nothing
    persons: Persons | None = None  # Whose rows they are, where a record is a person
    # Where the features are if they are not in memory; X then has no rows, and says their kind, or
    # these are some of them
    stored: StoredRows | None = None

    def parts(self) -> Iterator[Tensor]:
        """Read all features, a part at a time where they are not in memory."""
        return tables_of(self.X, self.stored, self.tensor)

    def tensor(self, values: np.ndarray) -> Tensor:
        """Bring values of rows to their device."""
        return torch.from_numpy(values).to(self.X.device)


@dataclass(frozen=True)
class Statistic:
    """A vector of each record that is summed in addition to its gradient."""

    size: int
    # ``of(output, *targets)`` returns the vectors of B records, shape (B, m). Row i depends on
    # record i, and on what was released, alone. Vectors longer than the norm of their block are
    # clipped to it
    of: Callable[..., Tensor]


@dataclass(eq=False, repr=False)
class BatchSums:
    """Sums over private rows; :class:`skfairdp.engine.release.NoisyRelease` alone hands them on.

    `meter`: what is still to be released of the plan.
    """

    _rows: Rows
    plan: InitVar[Plan]  # What was charged; every release is drawn from it
    _clipper: Clipper  # Computes weighted sums of clipped per-record gradients
    _noise: NoiseSource
    processes: Processes | None = None  # Those that train one model together; None: this alone
    own: Sequence[Segment] | None = None  # Those that gradients are released from; None: all

    def __post_init__(self, plan: Plan) -> None:
        self.meter = Meter(plan)
        self._tables = [] if self.own is None else [s for s in plan.segments if s not in self.own]
        rows = self._rows
        self._batches = batches_of(
            (rows.X, *rows.targets),
            rows.codes,
            len(plan.cells),
            self._noise.sampling,
            rows.persons,
            rows.stored,
            rows.tensor,
        )
        self._limits: dict[tuple[int, int, int], tuple[Segment, float]] = {}
        self._buffers: dict[int, Tensor] = {}

    def _batch(self, segment: Segment) -> Batch:
        """Draw the batch of a step, once the meter has counted it."""
        self.meter.draw(segment)
        return self._batches.draw(segment.rates, lambda: self.meter.left(segment))

    def _gradient(
        self,
        segment: Segment,
        cell_weights: np.ndarray | None,
        public: PublicBatch | None,
        outputs: list[Tensor] | None = None,
    ) -> tuple[Tensor, Batch, tuple[Tensor, ...]]:
        """Release a gradient; also its batch, and the targets of the batch's rows."""
        if segment in self._tables:
            self._refuse_table(segment)
        block = segment.blocks[0]
        weights, std = block.weights, block.noise_std
        if cell_weights is None:
            self._refuse_shared_noise(block)
        else:  # the noisy sums of the cells are weighted once more
            weights = tuple(float(a * b) for a, b in zip(weights, cell_weights, strict=True))
            std = block.cell_noise_std * float(np.linalg.norm(cell_weights))
        batch = self._batch(segment)
        total, mean, targets = self._gradient_sum(segment, batch, weights, public, outputs)
        gradient = self._noisy(total, std)
        return gradient if mean is None else gradient.add_(mean), batch, targets

    def _refuse_table(self, segment: Segment) -> None:
        raise PlanError(
            f"The segment with {segment.blocks[0].name!r} was not rehearsed for gradients, as the "
            "slice _with_gradients leaves it out: let it hold every segment that releases "
            "gradients."
        )

    def _refuse_shared_noise(self, block: Block) -> None:
        """Refuse one noise for several cells where a record may go from one to another."""
        relation = self.meter.plan.adjacency
        if NEIGHBOURS[relation].two_cells and np.count_nonzero(block.weights) > 1:
            raise PlanError(
                f"Under adjacency={relation!r} a record leaves one cell and joins another, and "
                "every cell needs its own noise: pass cell_weights to gradient()."
            )

    def _gradient_sum(
        self,
        segment: Segment,
        batch: Batch,
        weights: tuple[float, ...],
        public: PublicBatch | None,
        outputs: list[Tensor] | None = None,
    ) -> tuple[Tensor, Tensor | None, tuple[Tensor, ...]]:
        """Sum of clipped gradients, mean gradient of public rows, targets of the batch's rows.

        `outputs` gets the module's outputs for the batch's own rows.
        """
        own, block = rows_of(segment), segment.blocks[0]
        clipped_sums = self._clipper.clipped_sums
        if public is None:
            rows, limit = own, self._limit(segment, block)
            X, targets = self._take(batch.rows, rows)
            spread = self._spread(batch, weights)
            total = clipped_sums(X, targets, limit, spread, outputs, rows, batch.persons)
            return total, None, targets
        # Public rows come first: in which order their mean is summed follows from them alone.
        n, spread = len(public.rows), self._spread(batch, weights)
        rows = rows_of(segment, n)
        limit = self._limit(segment, block, rows - own)
        X, targets = self._take(np.concatenate([public.rows, batch.rows]), rows)
        for target, other in zip(targets[1:], public.others, strict=True):
            target[:n] = other
        limits = spread.new_full((n + len(spread),), limit)
        limits[:n] = torch.inf
        # Two sums from one pass: what the public rows add, however large, rounds nothing away
        # of what the noise covers.
        of_each = spread.new_zeros(2, n + len(spread))
        of_each[0, :n] = 1.0 / n
        of_each[1, n:] = spread
        mean, total = clipped_sums(X, targets, limits, of_each, outputs, rows)
        if outputs:
            outputs[:] = [torch.cat(outputs)[n:]]
        return total, mean, tuple(target[n:] for target in targets)

    def _take(self, rows: np.ndarray, block: int) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Rows and targets in whole blocks, zeros at the end; the next call overwrites them."""
        index = torch.from_numpy(rows).to(self._rows.X.device)
        size = -(-len(rows) // block) * block
        taken = []
        for place, table in enumerate(self._batches.held):
            buffer = self._buffers.get(place)
            if buffer is None or len(buffer) < size:
                buffer = self._buffers[place] = table.new_empty((size, *table.shape[1:]))
            torch.index_select(table, 0, index, out=buffer[: len(rows)])
            buffer[len(rows) : size].zero_()
            taken.append(buffer[:size])
        return taken[0], tuple(taken[1:])

    def _statistic_sum(
        self,
        segment: Segment,
        block: Block,
        batch: Batch,
        statistic: Statistic,
        outputs: list[Tensor],
        targets: tuple[Tensor, ...],
    ) -> Tensor:
        limit, rows = self._limit(segment, block), rows_of(segment)
        margin = rounding_margin(torch.float64, statistic.size)
        weights = fill(self._spread(batch, block.weights), rows)
        total = PairwiseSum()
        n = len(batch.rows)
        # What stands after the batch's own rows weighs nothing.
        whole = -(-n // rows) * rows
        output = fill(torch.cat(outputs)[:whole], rows) if outputs else weights
        targets = tuple(fill(target[:whole], rows) for target in targets)
        found = [
            statistic.of(output[part], *(target[part] for target in targets)).double()
            for part in blocks(len(output), rows)
        ]
        if batch.persons is not None and found:
            found = list(fill(means(batch.persons, torch.cat(found)[:n]), rows).split(rows))
        for vectors, part in zip(found, blocks(len(weights), rows), strict=True):
            squares = torch.linalg.vector_norm(vectors, dim=1).square_()
            factors, all_finite = clip_factors(squares, limit, margin)
            if not all_finite:
                # 0 * NaN is NaN: a record whose vector is not finite contributes exactly 0.
                vectors = torch.where(factors[:, None] > 0, vectors, 0.0)
            total.add(factors.mul_(weights[part]) @ vectors)
        sums = total.total()
        if sums is None:  # an empty batch still gets its noise
            sums = weights.new_zeros(statistic.size)
        return self._noisy(sums, block.noise_std)

    def _limit(self, segment: Segment, block: Block, additions: int = 0, n_sums: int = 1) -> float:
        """Clipping norm that leaves room for the rounding of the sum."""
        key = id(segment), id(block), additions
        known = self._limits.get(key)
        if known is None or known[0] is not segment:
            batches, processes = self._batches, self.processes
            additions += 1 if processes is None else processes.size
            terms = self._clipper.product_terms
            margin = margin_of(segment, block, batches.count, additions, batches.most, terms)
            margin = max(n_sums * margin, LEAST_MARGIN)
            limit = block.max_norm * (1.0 - margin)
            known = self._limits[key] = (segment, limit)
        return known[1]

    def _spread(self, batch: Batch, weights: tuple[float, ...]) -> Tensor:
        """Weight of each record, in float64 as clip factors are: one dtype is faster than two."""
        if len(weights) > 1:
            return self._rows.tensor(batch.spread(weights))
        return self._rows.X.new_full((sum(batch.sizes),), weights[0], dtype=torch.float64)

    def _counted(
        self, assign: Callable[[Rows], tuple[np.ndarray, np.ndarray]], n_counts: int
    ) -> np.ndarray:
        """Count the rows of this process, or one of each person, a part at a time from the disk.

        `assign`: maps rows to the count that each adds to, or to several in columns, negative for
        none, and to the sign of what it adds: no record adds more than one to each, whatever is
        asked for. Rows of persons are drawn once, so that all tables are about the same.
        """
        counts = np.zeros(n_counts, dtype=np.int64)
        for counted, rows in self._parts():
            entries, signs = assign(rows)
            entries = np.where(counted, entries.T, -1).T  # in each column
            for sign in (1, -1):
                added = entries[(np.sign(signs) == sign) & (entries >= 0)]
                counts += sign * np.bincount(added, minlength=n_counts)
        return counts

    def _counted_tables(
        self, assign: Callable[[Rows], Iterable[np.ndarray]], sizes: Sequence[int]
    ) -> np.ndarray:
        """Count rows, or one of each person, in several tables; no record adds more than 1 to each.

        `assign`: maps rows to their entries in each table, negative for none. `sizes`: of the
        tables, which follow one another in the result.
        """
        tables = [np.zeros(size, dtype=np.int64) for size in sizes]
        for counted, rows in self._parts():
            counts = counted & (rows.codes >= 0)
            for table, entries in zip(tables, assign(rows), strict=True):
                used = entries[counts & (entries >= 0) & (entries < len(table))]
                table += np.bincount(used, minlength=len(table))
        return np.concatenate(tables)

    def _parts(self) -> Iterator[tuple[np.ndarray | bool, Rows]]:
        """All rows, a part at a time, and which of them count in tables: one of each record."""
        for places, counted, (X, *targets) in self._batches.parts():
            codes = self._rows.codes[places].astype(np.int64)
            yield counted, replace(self._rows, X=X, targets=tuple(targets), codes=codes)

    def _noisy(self, total: Tensor, std: float) -> Tensor:
        """Release a sum with Gaussian noise, added in float64."""
        return self._released(total, partial(self._with_noise, std=std))

    def _released(
        self, part: Tensor, noisy: Callable[[Tensor], Tensor], like: Tensor | None = None
    ) -> Tensor:
        """Add noise to a sum of private rows, which leaves in no other way.

        `noisy`, `like`: as in `Processes.released`, where several processes train.
        """
        return noisy(part) if self.processes is None else self.processes.released(part, noisy, like)

    def _with_noise(self, total: Tensor, std: float) -> Tensor:
        exact = self.meter.plan.exact_noise
        released = self._noise.noisy(total.cpu().numpy(), std, exact=exact)
        return torch.from_numpy(released).to(total.device)
