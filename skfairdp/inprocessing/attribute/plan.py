"""The steps of Lagrangian dual learning: first without noise, then a noisy sum a group."""

from __future__ import annotations

import math

from skfairdp.privacy.plan import Block, Segment
from skfairdp.privacy.sizes import steps_for

GRADIENT, TABLE = "gradients of rates", "table of predictions"


def dual_segments(
    n_cells: int,
    n: int,
    noise_multiplier: float,
    *,
    batch: int,
    loss_batch: int,
    max_norms: tuple[float, float],
    share: float,
    warmup_epochs: int,
    max_epochs: int,
    by_steps: bool,
) -> list[Segment]:
    """Lay out the steps.

    `batch`, `loss_batch`: expected records of a secret batch, rows of a public one. `max_norms`:
    of a record's gradient and of its entry in the table. `share`: of the norm of both that the
    table gets. `by_steps`: whether every step releases a table, or an epoch one of all rows.
    """
    clip, bound = max_norms
    of_gradient = noise_multiplier * clip / math.sqrt(1.0 - share**2)
    of_table = noise_multiplier * bound / share

    def segment(steps: int, size: int, *blocks: tuple[str, float, float]) -> Segment:
        # Every group's sum is released by itself, in shares of the whole batch.
        weights = (1.0 / size,) * n_cells
        return Segment(
            steps=steps,
            rates=(size / n,) * n_cells,
            expected_sizes=(size / n_cells,) * n_cells,
            blocks=tuple(
                Block(name=a, max_norm=norm, weights=weights, noise_std=std / size)
                for a, norm, std in blocks
            ),
        )

    gradient = (GRADIENT, clip, of_gradient)
    steps = steps_for(max_epochs, n, batch)
    segments = [segment(steps_for(warmup_epochs, n, loss_batch), batch)]
    if by_steps:
        return [*segments, segment(steps, batch, gradient, (TABLE, bound, of_table))]
    # One table of all rows instead of those of an epoch's batches, at their price.
    table = (TABLE, bound, of_table * math.sqrt(n / batch))
    epoch = [segment(1, n, table), segment(steps // max_epochs, batch, gradient)]
    return [*segments, *epoch * max_epochs]
