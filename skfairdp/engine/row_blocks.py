"""Blocks of a fixed number of rows, and sums of many terms that round little.

How a processor rounds an elementwise function may depend on the shapes it gets: it picks other
instructions for what is left over at the end of a vector. A row's outputs and gradient could
then change in their last bits when another row leaves the batch. So networks only ever see blocks
of one fixed, public number of rows, the last one filled up with zeros. Before each fit equal rows
show that its place in the block plays no part either: what a row is turned into is its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

DEFAULT_ROWS = 288
"""Rows of a block where no batch size is known."""

PERSON_BLOCKS = tuple(96 * k for k in (1, 2, 3, 4, 5, 6, 8, 10, 12))
"""Rows of the blocks of a batch of persons, whose expected number of rows is not public."""

# Number of rows of a block whose operands stay in the cache.
_CACHED_ROWS = 1024
# Full vectors of all processors, and whole groups of rows in their products of matrices, which are
# of up to 48 rows: what is left over at the end of either is computed otherwise.
_STEP = 96
# Full vectors alone, for rows so large that few fit into memory.
_SMALL_STEP = 32
_VECTOR_BYTES = 64
# Products of a block and its weights, from which on a second thread pays.
_WORTH_WAKING = 1 << 25


def block_rows(expected: float, certain: int = 0) -> int:
    """Choose the number of rows of a block, from public numbers.

    `expected`: expected number of rows in a batch. `certain`: further rows of every batch.
    Result: a multiple of 96. One block holds a batch of up to about a thousand rows that is not
    two standard deviations above its expected size.

    Examples
    --------
    >>> from skfairdp.engine.row_blocks import block_rows
    >>> block_rows(256), block_rows(4096), block_rows(9)
    (288, 1056, 96)
    """
    pieces = max(1, round((expected + certain) / _CACHED_ROWS))
    rows = expected + 2.0 * math.sqrt(expected) + certain
    return max(1, math.ceil(rows / pieces / _STEP)) * _STEP


@contextmanager
def few_threads(rows: int, row_shape: Sequence[int], weights: int) -> Iterator[None]:
    """Compute in one thread where waking others costs more than they take over.

    `rows`: of a block. `row_shape`: images, whose weights serve many times, keep all threads.
    `weights`: number of weights of the module.
    """
    before = torch.get_num_threads()
    if len(row_shape) == 1 and rows * weights < _WORTH_WAKING:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def rows_within(rows: int, width: int, elements: int) -> int:
    """Make blocks smaller for rows of many numbers: a multiple of 96 rows, or of 32."""
    step = _STEP if elements // width >= _STEP else _SMALL_STEP
    return min(rows, max(1, elements // width // step) * step)


def rows_for(most: int, rows: int) -> int:
    """Make blocks larger where a person may have more rows: a multiple of 96.

    `rows`: 1 where rows go through a module one by one; a block then holds one large person.
    """
    if most <= rows or rows == 1:
        return max(rows, most)
    return -(-most // _STEP) * _STEP


def person_block(rows: int, largest: int) -> int:
    """Size of the block for a number of rows: the next of a few sizes, at most `largest`."""
    return min([size for size in PERSON_BLOCKS if size >= rows] + [largest])


def blocks(n: int, rows: int) -> list[slice]:
    """Cut ``range(n)`` into slices of `rows`; the last one may be shorter."""
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def fill(tensor: torch.Tensor, rows: int, value: float = 0.0) -> torch.Tensor:
    """Give a tensor a multiple of `rows` rows, with made-up ones at the end.

    `tensor` (n, ...). `value`: what is in the rows that are added. Result (m, ...): the tensor
    itself where nothing is missing and it begins at a full vector.
    """
    n = len(tensor)
    missing = -n % rows
    if not missing and tensor.data_ptr() % _VECTOR_BYTES == 0:
        return tensor
    filled = tensor.new_empty((n + missing, *tensor.shape[1:]))
    filled[:n] = tensor
    filled[n:] = value
    return filled


class PairwiseSum:
    """Pairwise sum of tensors, in which each term is rounded few times.

    Added one after the other, the first of n terms would be rounded n times; in pairs, and
    pairs of pairs, ``2 log2(n)`` times at most.

    `in_turn`: number of terms that are added one by one before pairs are formed: for terms that
    are large, and of few rows each.
    """

    def __init__(self, in_turn: int = 1) -> None:
        self._in_turn = in_turn
        self._open: torch.Tensor | None = None
        self._n_open = 0
        # The sum of 2**i terms, or nothing, as the digits of a binary number.
        self._digits: list[torch.Tensor | None] = []

    def add(self, term: torch.Tensor) -> None:
        """Add a tensor, which may be overwritten."""
        term = term if self._open is None else self._open.add_(term)
        self._open, self._n_open = term, self._n_open + 1
        if self._n_open < self._in_turn:
            return
        self._open, self._n_open = None, 0
        for place, held in enumerate(self._digits):
            if held is None:
                self._digits[place] = term
                return
            term = held.add_(term)
            self._digits[place] = None
        self._digits.append(term)

    def total(self) -> torch.Tensor | None:
        """Return the sum, None if there was no term."""
        total = self._open
        for held in self._digits:
            if held is not None:
                total = held if total is None else total.add_(held)
        return total


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
