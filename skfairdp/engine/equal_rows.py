"""Blocks of one row repeated, which show whether a row's place in a block plays a part.

A processor computes what comes of a row by a fixed sequence of roundings. Which sequence may depend
on shapes, on the number of threads, and on the place of the row in its block, but not on the
numbers in it. Sequences that differ give other bits for nearly all rows of numbers that are drawn
at random. So rows of equal numbers that give equal bits at all places show that all places have
one sequence, and then a row's bits are a function of that row and of the weights alone. What is
assumed of the library, and how likely a difference is missed: ``docs/theory/privacy.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

# Rows of ordinary numbers that are repeated; more for small blocks, where one output may be all.
_FEWEST, _MOST, _NUMBERS = 8, 24, 1 << 20
# Exponents to the base of 10 of a row of huge and tiny numbers, and of one that lies below the
# smallest normal float32 number, which a thread may take for zero.
_EXTREMES = ((-30.0, 6.0), (-44.0, -38.0))


def repeated_rows(like: Tensor, size: int, work: int, *, codes: bool = False) -> Iterator[Tensor]:
    """Make blocks of one row each, repeated.

    `like` (n, ...): shape, dtype and device of a row; no entry is read. `size`: rows of a block.
    `work`: numbers that a row meets, e.g. weights: how many blocks are worth their time follows
    from it. `codes`: rows of zeros and ones, for modules that take whole numbers. Result: blocks
    (size, ...), among them one of huge and tiny numbers and one of denormal ones unless `codes`.
    """
    generator = torch.Generator().manual_seed(2)
    shape = (1, *like.shape[1:])
    for _ in range(max(_FEWEST, min(_MOST, _NUMBERS // (size * max(work, 1))))):
        if codes:
            row = torch.randint(0, 2, shape, generator=generator)
        else:
            row = torch.randn(shape, generator=generator)
        yield _repeated(row, like, size)
    for low, high in () if codes else _EXTREMES:
        exponents = low + (high - low) * torch.rand(shape, generator=generator)
        row = torch.randn(shape, generator=generator) * torch.pow(10.0, exponents.double())
        yield _repeated(row, like, size)


def all_alike(found: Sequence[Tensor]) -> bool:
    """Return whether the rows of each tensor are equal to the last bit, NaN with NaN."""
    return same_bits(found, [each[:1].expand_as(each) for each in found])


def same_bits(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Return whether all numbers agree to the last bit, NaN with NaN."""
    return all(
        torch.equal(a, b) or torch.equal(a.nan_to_num(nan=-1.25), b.nan_to_num(nan=-1.25))
        for a, b in zip(some, others, strict=True)
    )


def _repeated(row: Tensor, like: Tensor, size: int) -> Tensor:
    return row.to(like).expand(size, *like.shape[1:]).contiguous()
