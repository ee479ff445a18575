"""Clip factors, and margins of records and of sums, that hold in floating point.

A record's vector ``v`` enters a sum as ``c * v`` with ``c = min(1, C' / N)``, where
``N`` is the *computed* norm. The guarantee needs that one record more or less moves the
*computed* sum by at most ``w * C``, ``w`` being the weight of the record's cell. So ``C'``
is ``C`` lowered by two margins.

The record's own (:func:`rounding_margin`):

* A sum of ``n`` squares in floating point, added in any order, is within a factor
  ``1 ± n u / (1 - n u)`` of the true sum (``u`` is the unit roundoff: 2**-24 for
  float32, 2**-53 for float64); the norm is within half of that. The outer-product
  norm of a layer is a product of two such sums, ``n`` then counts the terms of both.
* Square roots and products on the way to the factor, which is float64: at most 16
  roundings more.
* Squares below the smallest normal number may be lost. This error is absolute, not
  relative, and :func:`clip_factors` gets an upper bound of the norm instead: each
  sum of squares is raised by ``n * tiny`` before use.

The sum's (:func:`sum_margin`). Sums are formed in float64, where products of
float32 numbers are exact. Let ``x_i`` be what record i adds, in exact arithmetic, given its factor
and its gradient as computed; it depends on record i alone, because products are exact
(:mod:`skfairdp.engine.exact_products`) and networks see blocks of a fixed number of rows.
Each coordinate of ``x_i`` takes part in at most ``D`` roundings on its way into the sum: two
products, the additions of a block of
``R`` rows in any order (in a few parts where memory asks for it: one more), and at most 64
pairwise additions of up to 2**31 blocks, so ``D = R + 67``, and some more where several sums
are combined. By the standard bound for sums of products in any order (Higham, "Accuracy and
Stability of Numerical Algorithms", 2nd edition, sections 3.1 and 4.2), coordinate by coordinate

    |fl(S) - S|  <=  g * sum_i |x_i|,      g = D u / (1 - D u),  u = 2**-53,

so ``||fl(S) - S|| <= g * sum_i ||x_i||``. With at most ``M`` records, of weights up to
``w_max``, the right-hand side is at most ``g M w_max C``. Both data sets err, so

    ||fl(S(D)) - fl(S(D'))||  <=  ||x_i|| + 2 g M w_max C,

and this is at most ``w C`` for a record of weight ``w`` if its clipping norm was lowered by the
fraction ``2 g M w_max / w``. ``M`` is a public number (``row_capacity``), computed from
the sizes that the plan was made from; more rows are refused before anything is charged.
Nothing here depends on the rows, on how many there are, or on which of them were drawn.

Where a record is a person of several rows (:mod:`skfairdp.engine.person_rows`), ``x_i`` is a mean
of the rows' gradients times the factor, and it is added up row by row. Rows may cancel, so that
terms are longer than their sum: the factor is such that the mean of the terms' norms is at most
``K C'``, with ``1/K`` = ``CANCELLED``, and ``g`` counts K times. The norm of a mean is computed
from inner products, whose last bits may depend on where a person stands: of relative error ``e``,
they move the squared norm by ``2 e T^2`` and the person's vector by ``e K^2 C`` at most, T being
the sum of the rows' norms, which is at most K times what the factor was computed from. Both are
in the margin. A margin below ``2**-16`` is taken for that much, so that a person of
one row is clipped as a row is.

Not covered: the noise is a float64 number, and so is the noisy sum; the guarantee is for
noise that is a real number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from skfairdp.engine.row_blocks import PERSON_BLOCKS, block_rows, rows_for
from skfairdp.privacy.plan import Block, Plan, Segment

CANCELLED = 2.0**-4
"""A person's mean gradient is never taken to be shorter than this share of its rows' mean norm."""
LEAST_MARGIN = 2.0**-16

_EXTRA_ROUNDINGS = 16
UNIT = 2.0**-53
_LARGEST_HEAD = 1 << 16
_FEWEST_ROWS, _MOST_ROWS = 1 << 16, 1 << 32
_OTHER_ADDITIONS = 67


def rounding_margin(dtype: torch.dtype, n_terms: int = 1024) -> float:
    """Return the fraction by which a clipping norm is lowered for a record's own rounding.

    `dtype`: arithmetic of the module, ``torch.float32`` or ``torch.float64``. `n_terms`: largest
    number of squares that are added in that arithmetic to get one record's norm. Result: relative
    margin ``m``: vectors are clipped to ``(1 - m) * max_norm``.
    """
    unit_roundoff = torch.finfo(dtype).eps / 2
    relative = n_terms * unit_roundoff
    if relative > 0.5:
        raise ValueError(
            f"A layer adds {n_terms} squares in {dtype}; the norm of a gradient is not "
            "reliable there. Use a float64 module or smaller layers."
        )
    return relative / (2 * (1 - relative)) + _EXTRA_ROUNDINGS * unit_roundoff


def product_error(terms: int, most: int) -> float:
    """Return the error of the squared norm of a sum of gradients, over the squared sum of norms.

    `terms`: products that are added to get an inner product of two of them; 0 where the sum is
    formed before its norm. `most`: how many gradients are added.
    """
    return (terms + most**2) * UNIT if terms else 0.0


def clip_factors(
    squared_norms: torch.Tensor, max_norm: float | torch.Tensor, margin: float
) -> tuple[torch.Tensor, bool]:
    """Return the factor that brings each record's vector to at most `max_norm`.

    `squared_norms` (B,): upper bounds of the squared L2 norms; overwritten. `max_norm` (B,): l2
    bound of one record's vector, > 0; one for all records or one for each. Result `factors` (B,):
    in [0, 1]; 0 for a norm that is NaN or infinite; `all_finite`: false if some norm was NaN or
    infinite. The caller must then also blank the record's vectors, because 0 times NaN is NaN.
    """
    total = squared_norms.sum().item()
    factors = squared_norms.rsqrt_().mul_(max_norm * (1.0 - margin)).clamp_(max=1.0)
    if math.isfinite(total):
        return factors, True
    # 1/inf is 0 already; what is left is NaN (and inf * 0 when max_norm is infinite).
    finite = factors.isfinite() & (factors > 0)
    return torch.where(finite, factors, 0.0), bool(finite.all())


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
    segment: Segment, block: Block, n_records: int, additions: int, most: int, terms: int
) -> float:
    """Share of a block's norm that the rounding of its sum may take.

    `additions`: as in `sum_margin`. `most`, `terms`: as in `refuse_unbounded_sums`.
    """
    sizes = zip(segment.expected_sizes, segment.rates, strict=True)
    expected = sum(size / rate for size, rate in sizes)
    capacity, rows = row_capacity(expected, n_records), rows_of(segment)
    if most == 1:  # a record is a row: nothing in its vector cancels
        return sum_margin(rows, capacity, block.weights, additions)
    # Blocks of persons are as large as a batch needs, and hold the largest person.
    rows = max(rows, rows_for(most, PERSON_BLOCKS[-1]))
    return sum_margin(rows, capacity, block.weights, additions, product_error(terms, most))


def refuse_unbounded_sums(plan: Plan, n_records: int, most: int = 1, terms: int = 0) -> None:
    """Refuse records that are too many, or weights that differ too much, for a plan's margins.

    `most`: rows that a record brings to a sum, at most. `terms`: as in `product_error`. Raises
    ValueError: the rounding of a sum could hide more than the margin for it.
    """
    for segment in plan.segments:
        for block in segment.blocks:
            additions = _LARGEST_HEAD if segment.n_heads > 1 else 0
            margin_of(segment, block, n_records, additions, most, terms)
