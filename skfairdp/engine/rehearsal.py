"""Rehearsal on made-up rows, before anything is charged or a private row is used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.engine.clipping.base import Clipper
from skfairdp.engine.clipping.norms import clip_factors
from skfairdp.engine.randomness import OwnDraws
from skfairdp.engine.row_blocks import PERSON_BLOCKS, block_rows, few_threads, rows_for
from skfairdp.engine.sum_margins import refuse_unbounded_sums, rows_of
from skfairdp.persons import Persons
from skfairdp.privacy.plan import Plan

# Rows whose whole gradients are compared: fewer where they are large.
_PROBES, _PROBED_NUMBERS = 8, 1 << 22


def rehearse(
    module: nn.Module,
    clipper: Clipper,
    rows: Tensor,
    targets: tuple[Tensor, ...],
    plan: Plan,
    persons: Persons | None = None,
    n_rows: int | None = None,
    public: int = 0,
) -> None:
    """Try a clipper in the blocks of a plan: each row's gradient must be its own, bit by bit.

    Made-up rows go through the module in several orders and with others missing. Where a
    gradient, its norm or an output differs in a bit, this processor rounds the module's
    products by a row's place in a block, and the clipper takes records one by one from then on.
    Layers that draw at random in training alone do not draw here; of a module that does,
    nothing can be compared.

    `module`: what the clipper sums gradients of. `rows`, `targets`: private; their shapes, types
    and number are used, and no entry is read. `persons`: whose rows they are, where a record is a
    person. `n_rows`: how many a sum may be over; None: those that are here. `public`: rows that
    may join every sum.
    """
    sizes = {rows_of(s, beside) for s in plan.segments for beside in {0, public}}
    of_steps = {size: {size} for size in sizes or {block_rows(1)}}
    if persons is None:
        refuse_unbounded_sums(plan, len(rows) if n_rows is None else n_rows)
    else:
        refuse_unbounded_sums(plan, persons.count, persons.most, clipper.product_terms)
        of_steps = {size: {size, rows_for(persons.most, size)} for size in of_steps}
        if clipper.serving(rows).path == "fused":  # in blocks of whichever size a batch needs
            needed = {*PERSON_BLOCKS, rows_for(persons.most, max(PERSON_BLOCKS))}
            of_steps = {size: own | needed for size, own in of_steps.items()}
    numbers = sum(p.numel() for p in module.parameters() if p.requires_grad)
    serving = clipper.serving(rows)
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        # One row first: whether the module can be taken at all, and whether only one by one.
        with OwnDraws(np.random.default_rng(0)) as watch:
            one = torch.ones(1, dtype=torch.float64, device=rows.device)
            serving.clipped_sums(*_zeros(rows, targets, 1), 1.0, one, None, 1)
        if watch.used:
            return
        probes = max(1, min(_PROBES, _PROBED_NUMBERS // numbers))
        for step, blocks in of_steps.items():
            with few_threads(step, rows.shape[1:], numbers):  # as in training
                _rehearse_blocks(clipper, rows, targets, blocks, probes)
    finally:
        for part, mode in modes:
            part.training = mode


def _rehearse_blocks(
    clipper: Clipper, rows: Tensor, targets: tuple[Tensor, ...], sizes: set[int], probes: int
) -> None:
    """Compare the gradients of a few rows in blocks of each size."""
    serving, of_sizes, largest = clipper.serving(rows), [], max(sizes)
    for size in sorted(sizes):
        size = 2 if serving.one_by_one else size
        block = _Block(serving, size, _zeros(rows, targets, size)[1], probes, largest)
        seen = block.first_that_runs(rows)
        if seen is None:
            continue
        of_sizes.append([each[:probes] for each in seen[1]])
        if block.apart(*seen) and _same(of_sizes[0], of_sizes[-1]):
            continue
        clipper.take_one_by_one()
        block = _Block(clipper, size, block.targets, probes, largest)
        if not block.apart(seen[0], block.observed(seen[0])):
            raise ValueError(
                "The module gives another gradient for a row when it is asked again, or together "
                "with other rows. Let it keep nothing from one call to the next, and process every "
                "row by itself."
            )


def _zeros(
    rows: Tensor, targets: tuple[Tensor, ...], size: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    first, *others = (t.new_zeros((size, *t.shape[1:])) for t in (rows, *targets))
    return first, tuple(others)


@dataclass(frozen=True)
class _Block:
    """A clipper on made-up rows in blocks of one size."""

    clipper: Clipper
    size: int
    targets: tuple[Tensor, ...]
    probes: int
    largest: int  # Rows of the largest block

    def first_that_runs(self, like: Tensor) -> tuple[Tensor, list[Tensor]] | None:
        """Rows that the module takes, with their results; None if it takes zeros only.

        The first rows of a smaller block are those of a larger one.
        """
        generator = torch.Generator().manual_seed(0)
        shape = (self.largest, *like.shape[1:])
        codes = torch.randint(0, 2, shape, generator=generator)  # e.g. for an embedding
        for made_up in (torch.randn(shape, generator=generator), codes):
            rows = made_up[: self.size].to(like)
            try:
                return rows, self.observed(rows)
            except (IndexError, RuntimeError):
                continue
        return None

    def observed(self, rows: Tensor, order: Tensor | None = None) -> list[Tensor]:
        """Gradients of a few rows; outputs, norms and factors of all, in their original order."""
        order = torch.arange(len(rows)) if order is None else order
        probed, back = order < self.probes, order.argsort()
        left, pieces = probed.to(rows.device), []

        def watch(gradients: list[Tensor], outputs: Tensor) -> None:
            nonlocal left
            mask, left = left[: len(outputs)], left[len(outputs) :]
            pieces.append([*(gradient[mask] for gradient in gradients), outputs])

        targets = tuple(target[: len(rows)] for target in self.targets)
        norms = self.clipper.norms(rows[order], targets, self.size, watch=watch)
        *some, outputs = (torch.cat(each) for each in zip(*pieces, strict=True))
        # Most gradients are clipped to this norm, so that factors are compared too.
        factors, _ = clip_factors(norms.square(), 1e-3, self.clipper.margin)
        few = order[probed].argsort()
        return [*(each[few] for each in some), *(each[back] for each in (outputs, norms, factors))]

    def apart(self, rows: Tensor, seen: list[Tensor]) -> bool:
        """Whether rows give the same in every order, and when others are missing."""
        orders = [torch.arange(self.size).roll(shift) for shift in (0, 1, self.size // 2)]
        orders.append(torch.randperm(self.size, generator=torch.Generator().manual_seed(1)))
        if not all(_same(self.observed(rows, order), seen) for order in orders):
            return False
        kept = self.size // 2 + 1
        alone = [each[:kept] for each in seen]
        return kept < self.probes or _same(self.observed(rows[:kept]), alone)


def _same(some: list[Tensor], others: list[Tensor]) -> bool:
    """Whether all numbers agree to the last bit, NaN with NaN."""
    return all(
        torch.equal(a, b) or torch.equal(a.nan_to_num(nan=-1.25), b.nan_to_num(nan=-1.25))
        for a, b in zip(some, others, strict=True)
    )
