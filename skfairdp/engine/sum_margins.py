"""Share of a clipping norm reserved for rounding of sums: :mod:`skfairdp.engine.clipping.norms`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from skfairdp.engine.clipping.norms import CANCELLED, UNIT, product_error
from skfairdp.engine.row_blocks import PERSON_BLOCKS, block_rows, rows_for
from skfairdp.privacy.plan import Block, Plan, Segment

_LARGEST_HEAD = 1 << 16
_FEWEST_ROWS, _MOST_ROWS = 1 << 16, 1 << 32
_OTHER_ADDITIONS = 67


def row_capacity(expected: float, n_rows: int = 0) -> int:
    """Return how many rows a sum may be over, from the number that its plan expects.

    `expected`: declared or public number of rows. Result: four times what is expected, between
    2**16 and 2**32: a declared size need not be exact.
    """
    capacity = min(max(_FEWEST_ROWS, 4 * math.ceil(expected)), _MOST_ROWS)
    if n_rows > capacity:
        raise ValueError(
            f"There are more than {capacity:,} rows; where {expected:,.0f} were declared, the "
            "margin for the rounding of sums holds up to that number. Declare 'dataset_size' or "
            "'group_sizes' nearer to the truth."
        )
    return capacity


def sum_margin(
    rows: int,
    capacity: int,
    weights: Sequence[float],
    additions: int = 0,
    of_persons: float | None = None,
) -> float:
    """Return the fraction by which a clipping norm is lowered for the rounding of a sum.

    `capacity`: no sum is over more rows. `weights`: weight of each cell, >= 0; a cell without
    weight is in no sum. `additions`: what else a term takes part in: how many roundings after the
    block's sum. `of_persons`: relative error of an inner product of two rows' gradients, where
    records are persons of several rows. Result: relative margin, for the cell of the smallest
    weight.
    """
    used = [weight for weight in weights if weight > 0.0]
    if not used:
        return 0.0
    roundings = (rows + _OTHER_ADDITIONS + additions) * UNIT
    margin = 2.0 * roundings / (1.0 - roundings)
    if of_persons is not None:
        margin = margin / CANCELLED + 1.1 * of_persons / CANCELLED**2
    margin *= capacity * (max(used) / min(used))
    if margin > 0.1:
        raise ValueError(
            f"The plan sums up to {capacity:,} rows and the weights of its cells differ by a "
            f"factor of {max(used) / min(used):.3g}: what one record of the cell with the smallest "
            "weight adds could be lost in rounding. Use sampling rates or group sizes that differ "
            "less."
        )
    return margin


def rows_of(segment: Segment, public: int = 0) -> int:
    """Rows of the blocks in which a segment's batches are computed, public rows included."""
    return block_rows(sum(segment.expected_sizes), public)


def margin_of(
    segment: Segment, block: Block, n_records: int, additions: int, most: int | None, terms: int
) -> float:
    """Share of a block's norm that the rounding of its sum may take.

    `additions`: as in `sum_margin`. `most`, `terms`: as in `refuse_unbounded_sums`.
    """
    sizes = zip(segment.expected_sizes, segment.rates, strict=True)
    expected = sum(size / rate for size, rate in sizes)
    capacity, rows = row_capacity(expected, n_records), rows_of(segment)
    if most is None:
        return sum_margin(rows, capacity, block.weights, additions)
    # Blocks of persons are as large as a batch needs, and hold the largest person.
    rows = max(rows, rows_for(most, PERSON_BLOCKS[-1]))
    return sum_margin(rows, capacity, block.weights, additions, product_error(terms, most))


def refuse_unbounded_sums(
    plan: Plan, n_records: int, most: int | None = None, terms: int = 0
) -> None:
    """Refuse records that are too many, or weights that differ too much, for a plan's margins.

    `most`: rows of a person, where records are persons. `terms`: as in `product_error`. Raises
    ValueError: the rounding of a sum could hide more than the margin for it.
    """
    for segment in plan.segments:
        for block in segment.blocks:
            additions = _LARGEST_HEAD if segment.n_heads > 1 else 0
            margin_of(segment, block, n_records, additions, most, terms)
