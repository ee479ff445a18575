"""A rehearsal on made-up rows, before anything is charged or a private row is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.engine.blocks import block_rows
from skfairdp.engine.clipping import Clipper
from skfairdp.engine.randomness import OwnDraws
from skfairdp.engine.release import refuse_unbounded_sums
from skfairdp.privacy.plan import Plan

__all__ = ["rehearse"]

_PROBES = 8


def rehearse(
    module: nn.Module,
    clipper: Clipper,
    rows: Tensor,
    targets: tuple[Tensor, ...],
    plan: Plan,
    *,
    serves: bool = False,
) -> None:
    """Try a clipper in the blocks of a plan: each row's gradient must be its own, bit by bit.

    Made-up rows go through the module in several orders and with others missing. Where a
    gradient, its norm or an output differs in a bit, this processor rounds the module's
    products by a row's place in a block, and the clipper takes records one by one from then on.

    Parameters
    ----------
    module : torch.nn.Module
        What the clipper sums gradients of; left as it is.
    clipper : Clipper
    rows, targets : Tensor, tuple of Tensor
        Private rows and what the objective takes; their shapes, types and number are used,
        and no entry is read.
    plan : Plan
        Says how large batches are.
    serves : bool, default=False
        Whether the module draws at random while it trains. Its draws then come from a generator
        that anybody may know; where it draws even here, nothing can be compared.

    Raises
    ------
    ValueError
        There are more rows than the margins of the plan hold for, or the module cannot be
        differentiated record by record.
    """
    refuse_unbounded_sums(plan, len(rows))
    sizes = {block_rows(sum(segment.expected_sizes)) for segment in plan.segments}
    modes = [(part, part.training) for part in module.modules()]
    module.eval()  # what layers draw at random in training cannot be compared
    try:
        with OwnDraws(np.random.default_rng(0)) if serves else nullcontext() as watch:
            for size in sorted(sizes or {block_rows(1)}):
                _compare(clipper, size, rows, targets, watch)
    finally:
        for part, mode in modes:
            part.training = mode


def _compare(
    clipper: Clipper, size: int, rows: Tensor, targets: tuple[Tensor, ...], watch: OwnDraws | None
) -> None:
    made_up = tuple(target.new_zeros((size, *target.shape[1:])) for target in targets)
    for first in (True, False):
        seen = _first_that_runs(clipper, size, rows, made_up)
        drew = watch is not None and watch.used
        if seen is None or drew or _apart(clipper, size, made_up, *seen):
            return
        if first:
            clipper.take_one_by_one()
    raise ValueError(
        "The module gives another gradient for a row when it is asked again, or beside other "
        "rows. Let it keep nothing from one call to the next, and process every row by itself."
    )


def _first_that_runs(
    clipper: Clipper, size: int, rows: Tensor, targets: tuple[Tensor, ...]
) -> tuple[Tensor, list[Tensor]] | None:
    """Rows that the module takes, and what comes of them; None if it takes but zeros."""
    generator = torch.Generator().manual_seed(0)
    shape = (size, *rows.shape[1:])
    kinds: Iterable[Callable[[], Tensor]] = (
        lambda: torch.randn(shape, generator=generator),
        lambda: torch.randint(0, 2, shape, generator=generator),  # e.g. codes
    )
    for kind in kinds:
        made_up = kind().to(rows)
        try:
            return made_up, _observed(clipper, size, made_up, targets)
        except (IndexError, RuntimeError):
            continue
    _observed(clipper, size, torch.zeros(shape).to(rows), targets)
    return None


def _observed(
    clipper: Clipper,
    size: int,
    rows: Tensor,
    targets: tuple[Tensor, ...],
    order: Tensor | None = None,
) -> list[Tensor]:
    """Gradients of a few rows, outputs and norms of all, in the order that they had."""
    n = len(rows)
    order = torch.arange(n) if order is None else order
    # All gradients are clipped to this norm, so that factors are compared too.
    weights = torch.eye(n, dtype=torch.float64)[:_PROBES][:, order].to(rows.device)
    targets = tuple(target[:n] for target in targets)
    outputs: list[Tensor] = []
    sums = clipper.clipped_sums(rows[order], targets, 1e-3, weights, outputs, size).clone()
    norms = clipper.norms(rows[order], targets, size)
    back = order.argsort()
    return [sums, torch.cat(outputs)[back], norms[back]]


def _apart(
    clipper: Clipper, size: int, targets: tuple[Tensor, ...], rows: Tensor, seen: list[Tensor]
) -> bool:
    generator = torch.Generator().manual_seed(1)
    orders = [torch.arange(size).roll(shift) for shift in (0, 1, size // 2)]
    orders.append(torch.randperm(size, generator=generator))
    for order in orders:
        if not _same(_observed(clipper, size, rows, targets, order), seen):
            return False
    # Others missing: the block is filled up with zeros.
    kept = size // 2 + 1
    sums, outputs, norms = _observed(clipper, size, rows[:kept], targets)
    return _same([sums, outputs, norms], [seen[0], seen[1][:kept], seen[2][:kept]])


def _same(some: list[Tensor], others: list[Tensor]) -> bool:
    """Whether all numbers agree, NaN with NaN."""
    return all(
        torch.equal(a.nan_to_num(nan=-1.25), b.nan_to_num(nan=-1.25))
        for a, b in zip(some, others, strict=True)
    )
