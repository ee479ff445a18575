"""Blocks of a fixed number of rows, and sums of many terms that round little.

How a processor rounds a product of matrices, or an elementwise function, depends on the
shapes it gets: it picks other instructions for another number of rows, and for what is left
over at the end of a vector. A row's outputs and gradient could then change in their last bits
when another row leaves the batch, and at the kink of a ReLU a last bit switches a unit on. So
networks only ever see blocks of one fixed, public number of rows, the last one filled up with
zeros. It depends on addresses too: products of matrices load numbers otherwise where a row does
not begin at a whole vector. So every row of a block begins at one. What a row is turned into is
then its own; a product further inside a network may still differ by a row's place, which callers
try on made-up rows.
"""

from __future__ import annotations

import math

import torch

__all__ = [
    "DEFAULT_ROWS",
    "PairwiseSum",
    "block_rows",
    "blocks",
    "empty_rows",
    "fill",
    "lined_up",
    "rows_within",
]

DEFAULT_ROWS = 256
"""Rows of a block where no batch size is known."""

# Operands of a block of about so many rows stay in the cache.
_CACHED_ROWS = 1024
# Full vectors of all processors: what is left over at a vector's end is computed otherwise.
_STEP = 32
# Bytes of the widest vector of all processors, where torch lets every tensor begin.
_VECTOR = 64


def block_rows(expected: float) -> int:
    """Choose the number of rows of a block, from a public number.

    Parameters
    ----------
    expected : float
        Expected number of rows in a batch.

    Returns
    -------
    int
        A multiple of 32. One block holds a batch of up to about a thousand rows that is not two
        standard deviations above its expected size.

    Examples
    --------
    >>> from skfairdp.engine.blocks import block_rows
    >>> block_rows(256), block_rows(4096), block_rows(9)
    (288, 1056, 32)
    """
    pieces = max(1, round(expected / _CACHED_ROWS))
    return max(1, math.ceil((expected + 2.0 * math.sqrt(expected)) / pieces / _STEP)) * _STEP


def rows_within(rows: int, width: int, elements: int) -> int:
    """Make blocks smaller for rows of many numbers: 32 rows at least, a multiple of that."""
    return min(rows, max(1, elements // width // _STEP) * _STEP)


def blocks(n: int, rows: int) -> list[slice]:
    """Cut ``range(n)`` into slices of `rows`; the last one may be shorter."""
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def fill(tensor: torch.Tensor, rows: int, value: float = 0.0) -> torch.Tensor:
    """Give a tensor a multiple of `rows` rows, with made-up ones at the end.

    Parameters
    ----------
    tensor : torch.Tensor of shape (n, ...)
    rows : int
    value : float, default=0.0
        What is in the rows that are added.

    Returns
    -------
    torch.Tensor of shape (m, ...)
        The tensor itself where nothing is missing.
    """
    n = len(tensor)
    missing = -n % rows
    if not missing:
        return tensor
    filled = tensor.new_empty((n + missing, *tensor.shape[1:]))
    filled[:n] = tensor
    filled[n:] = value
    return filled


def empty_rows(n: int, like: torch.Tensor) -> torch.Tensor:
    """Make an empty table of which every row begins at a whole vector.

    Parameters
    ----------
    n : int
        Number of rows.
    like : torch.Tensor of shape (m, ...)
        Rows of that shape and dtype, on that device.

    Returns
    -------
    torch.Tensor of shape (n, ...)
        Not contiguous where a row is no whole number of vectors. Single numbers follow one
        another.
    """
    if like.dim() == 1:
        return like.new_empty(n)
    width, step = math.prod(like.shape[1:]), _VECTOR // like.element_size()
    table = like.new_empty(n, -(-width // step) * step)
    return table[:, :width].view(n, *like.shape[1:])


def lined_up(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """Give a table whole blocks, zeros at the end, and let each row begin at a whole vector.

    Parameters
    ----------
    tensor : torch.Tensor of shape (n, ...)
    rows : int
        Rows of a block.

    Returns
    -------
    torch.Tensor of shape (m, ...)
        The tensor itself where it is like that already.

    Examples
    --------
    >>> import torch
    >>> from skfairdp.engine.blocks import lined_up
    >>> lined_up(torch.ones(3, 5), 4).stride()
    (16, 1)
    """
    n = len(tensor)
    places = {tensor.data_ptr() % _VECTOR}
    if n > 1:
        places.add(tensor.stride(0) * tensor.element_size() % _VECTOR)
    if n % rows == 0 and ((places == {0} and tensor[:1].is_contiguous()) or not n):
        return tensor
    table = empty_rows(n + -n % rows, tensor)
    table[:n] = tensor
    table[n:] = 0
    return table


class PairwiseSum:
    """A sum of tensors of which each takes part in few additions.

    Added one after the other, the first of n terms would be rounded n times; in pairs, and
    pairs of pairs, ``2 log2(n)`` times at most.

    Parameters
    ----------
    in_turn : int, default=1
        So many terms are added one after the other before pairs are formed: for terms that
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
