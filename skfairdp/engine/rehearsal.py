"""Rehearsal on made-up rows, before anything is charged or a private row is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.engine.clipping.base import Clipper
from skfairdp.engine.clipping.norms import clip_factors, refuse_unbounded_sums, rows_of
from skfairdp.engine.exact_products import AS_TORCH
from skfairdp.engine.randomness import OwnDraws
from skfairdp.engine.row_blocks import (
    PERSON_BLOCKS,
    all_alike,
    block_rows,
    few_threads,
    repeated_rows,
    rows_for,
    same_bits,
)
from skfairdp.foundation.assumptions import EXACTLY
from skfairdp.privacy.plan import Plan, Segment

# Rows whose whole gradients are compared: fewer where they are large.
_PROBES, _PROBED_NUMBERS = 8, 1 << 22


def rehearse(
    module: nn.Module,
    clipper: Clipper,
    rows: Tensor,
    targets: tuple[Tensor, ...],
    plan: Plan,
    most: int = 1,
    n_records: int | None = None,
    public: int = 0,
    own: Sequence[Segment] | None = None,
) -> str:
    """Try a clipper in the blocks of a plan: each row's gradient must be its own, bit by bit.

    Made-up rows go through the module: each repeated all over a block, then different ones in
    several orders and with others missing. Where a gradient, its norm or an output differs in a
    bit, this processor rounds the module's products by a row's place in a block. The clipper then
    retreats: to products that do not round, and where that is not enough to records one by one.
    Layers that draw at random in training alone do not draw here; of a module that does, nothing
    can be compared, and its products are exact.

    `module`: what the clipper sums gradients of. `rows`, `targets`: private; their shapes, types
    and number are used, and no entry is read. `most`: rows that a record brings to a sum, at most.
    `n_records`: how many a sum may be over; None: the rows that are here. `public`: rows that may
    join every sum. `own`: segments of the plan that gradients are released from, None: all. No
    clipper sees the blocks of others: `BatchSums` refuses it. Result: how the clipper computes from
    now on, for a certificate.
    """
    own = plan.segments if own is None else own
    sizes = {rows_of(s, beside) for s in own for beside in {0, public}}
    of_steps = {size: {size} for size in sizes or {block_rows(1)}}
    n_records = len(rows) if n_records is None else n_records
    refuse_unbounded_sums(plan, n_records, most, clipper.product_terms)
    if most > 1:
        of_steps = {size: {size, rows_for(most, size)} for size in of_steps}
        if clipper.serving(rows).path == "fused":  # in blocks of whichever size a batch needs
            needed = {*PERSON_BLOCKS, rows_for(most, max(PERSON_BLOCKS))}
            of_steps = {size: own | needed for size, own in of_steps.items()}
    numbers = sum(p.numel() for p in module.parameters() if p.requires_grad)
    probes = max(1, min(_PROBES, _PROBED_NUMBERS // numbers))
    clipper.products = AS_TORCH  # the fastest way, which only a trial that it passes leaves at that
    serving = clipper.serving(rows)  # in training, where a layer may draw that does not draw here
    with _as_at_prediction(module), OwnDraws(np.random.default_rng(0)) as watch:
        # One row first: whether the module can be taken at all, and whether only one by one.
        one = torch.ones(1, dtype=torch.float64, device=rows.device)
        serving.clipped_sums(*_zeros(rows, targets, 1), 1.0, one, None, 1)
    if watch.used:
        clipper.retreat()
        return EXACTLY
    while True:
        trial = _Trial(serving, rows, targets, probes, numbers)
        with _as_at_prediction(module):
            if trial.keeps_rows_apart(of_steps):
                return serving.arithmetic
        if serving.one_by_one:
            raise ValueError(
                "The module's gradient for a row changes from call to call, or with the other rows "
                "of its batch. Keep no state between calls, and process every row by itself."
            )
        clipper.retreat()
        serving = clipper.serving(rows)


@contextmanager
def _as_at_prediction(module: nn.Module) -> Iterator[None]:
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


@dataclass(frozen=True)
class _Trial:
    """Trial of a clipper on made-up rows, in blocks of all sizes that its fit will use."""

    serving: Clipper
    rows: Tensor
    targets: tuple[Tensor, ...]
    probes: int
    numbers: int  # Of the module's weights

    def keeps_rows_apart(self, of_steps: dict[int, set[int]]) -> bool:
        """Compare blocks of each size by themselves, and what few rows give in all of them.

        `of_steps`: sizes of blocks by those of steps.
        """
        for step, sizes in of_steps.items():
            with few_threads(step, self.rows.shape[1:], self.numbers):  # as in training
                if not self._same_in_all(sizes):
                    return False
        return True

    def _same_in_all(self, sizes: set[int]) -> bool:
        serving, first, largest = self.serving, None, max(sizes)
        for size in sorted(sizes):
            size = 2 if serving.one_by_one else size
            targets = _zeros(self.rows, self.targets, size)[1]
            block = _Block(serving, size, targets, self.probes, largest, self.numbers)
            seen = block.first_that_runs(self.rows)
            if seen is None:
                continue
            few = [each[: self.probes] for each in seen.found]
            first = few if first is None else first
            if not (same_bits(few, first) and block.keeps_rows_apart(seen)):
                return False
        return True


def _zeros(
    rows: Tensor, targets: tuple[Tensor, ...], size: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    first, *others = (t.new_zeros((size, *t.shape[1:])) for t in (rows, *targets))
    return first, tuple(others)


class _Seen(NamedTuple):
    """Made-up rows that a module takes, with their gradients, norms and outputs."""

    rows: Tensor
    found: list[Tensor]
    codes: bool  # Whether it takes nothing but whole numbers


@dataclass(frozen=True)
class _Block:
    """A clipper on made-up rows in blocks of one size."""

    clipper: Clipper
    size: int
    targets: tuple[Tensor, ...]
    probes: int
    largest: int  # Rows of the largest block
    numbers: int  # Of the module's weights

    def first_that_runs(self, like: Tensor) -> _Seen | None:
        """Rows that the module takes, with their results; None if it takes zeros only.

        The first rows of a smaller block are those of a larger one.
        """
        generator = torch.Generator().manual_seed(0)
        shape = (self.largest, *like.shape[1:])
        codes = torch.randint(0, 2, shape, generator=generator)  # e.g. for an embedding
        for made_up in (torch.randn(shape, generator=generator), codes):
            rows = made_up[: self.size].to(like)
            try:
                return _Seen(rows, self.observed(rows), made_up is codes)
            except (IndexError, RuntimeError):
                continue
        return None

    def observed(self, rows: Tensor, order: Tensor | None = None) -> list[Tensor]:
        """Gradients of a few rows; outputs, norms and factors of all, in their original order."""
        order = torch.arange(len(rows)) if order is None else order
        probed, back = order < self.probes, order.argsort()
        *some, outputs, norms, factors = self._computed(rows[order], probed.to(rows.device))
        few = order[probed].argsort()
        return [*(each[few] for each in some), *(each[back] for each in (outputs, norms, factors))]

    def keeps_rows_apart(self, seen: _Seen) -> bool:
        """Whether rows give the same at all places, in every order, and when others are missing."""
        everywhere = torch.ones(self.size, dtype=torch.bool, device=seen.rows.device)
        for rows in repeated_rows(seen.rows, self.size, self.numbers, codes=seen.codes):
            if not all_alike(self._computed(rows, everywhere)):
                return False
        orders = [torch.arange(self.size).roll(shift) for shift in (0, 1, self.size // 2)]
        orders.append(torch.randperm(self.size, generator=torch.Generator().manual_seed(1)))
        if not all(same_bits(self.observed(seen.rows, order), seen.found) for order in orders):
            return False
        kept = self.size // 2 + 1
        alone = [each[:kept] for each in seen.found]
        return kept < self.probes or same_bits(self.observed(seen.rows[:kept]), alone)

    def _computed(self, rows: Tensor, probed: Tensor) -> list[Tensor]:
        """Gradients of the probed rows; outputs, norms and factors of all."""
        left, pieces = probed, []

        def watch(gradients: list[Tensor], outputs: Tensor) -> None:
            nonlocal left
            mask, left = left[: len(outputs)], left[len(outputs) :]
            pieces.append([*(gradient[mask] for gradient in gradients), outputs])

        targets = tuple(target[: len(rows)] for target in self.targets)
        norms = self.clipper.norms(rows, targets, self.size, watch=watch)
        *some, outputs = (torch.cat(each) for each in zip(*pieces, strict=True))
        # Most gradients are clipped to this norm, so that factors are compared too.
        factors, _ = clip_factors(norms.square(), 1e-3, self.clipper.margin)
        return [*some, outputs, norms, factors]
