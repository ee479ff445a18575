"""How much of a clip norm the rounding of a plan's sums may take."""

from __future__ import annotations

from skfairdp.engine.clipping.norms import product_error, row_capacity, sum_margin
from skfairdp.engine.row_blocks import PERSON_BLOCKS, block_rows, rows_for
from skfairdp.privacy.plan import Block, Plan, Segment

_LARGEST_HEAD = 1 << 16


def rows_of(segment: Segment, public: int = 0) -> int:
    """Rows of the blocks in which a segment's batches are computed, with public rows beside."""
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
