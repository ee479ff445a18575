"""The rows of a batch by their persons: means of vectors, and norms of means.

A person's vector is the mean of those of its rows. A mean is a sum in float64, row after row, over
the number of rows, so it depends on the person's rows alone, to the last bit. Where gradients are
never formed, its squared norm is the sum over pairs of rows of their inner products, which follow
from inputs and upstream gradients (`PersonRows.squares`): what is added to the batch's sum is each
row's gradient, times the person's clip factor over its number of rows. Rows of a person may cancel
each other; what that means for rounding is written in :mod:`skfairdp.engine.clipping.norms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from skfairdp.engine.clipping.norms import CANCELLED, product_error

# Inputs of a layer, with a column of ones for its bias, and upstream gradients: the gradient of a
# row is their product.
Sides = Sequence[tuple[Tensor, Tensor]]

# Number of padding rows that costs as much as handling short and long persons apart.
_PADDED = 1024


class PersonRows:
    """Number of rows of each person in a batch, where the rows of a person are adjacent.

    `counts` (P,): at least 1. `most`: no count is larger; a public number.
    """

    def __init__(self, counts: np.ndarray, most: int) -> None:
        self.most = most
        self._counts = counts
        self._starts = np.cumsum(counts) - counts
        self._largest = int(counts.max(initial=1))

    def __len__(self) -> int:
        return len(self._counts)

    def with_rows(self, kept: np.ndarray) -> tuple[np.ndarray, PersonRows]:
        """Take rows out: which persons have others, and these persons.

        `kept` (rows,): whether each row stays.
        """
        owners = np.repeat(np.arange(len(self)), self._counts)
        counts = np.bincount(owners[kept], minlength=len(self))
        return counts > 0, PersonRows(counts[counts > 0], self.most)

    def blocks(self, rows: int) -> Iterator[tuple[slice, slice, PersonRows]]:
        """Cut a batch into blocks of at most `rows` rows that hold whole persons.

        Yields the slice of the rows, that of the persons, and the persons of the block.
        """
        ends, first = self._starts + self._counts, 0
        while first < len(self):
            begin = int(self._starts[first])
            stop = int(np.searchsorted(ends, begin + rows, side="right"))
            part = slice(first, stop)
            own, persons = self.part(part)
            yield own, part, persons
            first = stop

    def part(self, part: slice) -> tuple[slice, PersonRows]:
        """Take some adjacent persons, at least one: the slice of their rows, and these persons."""
        counts, begin = self._counts[part], int(self._starts[part.start])
        return slice(begin, begin + int(counts.sum())), PersonRows(counts, self.most)

    def means(self, of_rows: Tensor) -> Tensor:
        """Mean over each person's rows, in the dtype that these have."""
        device = of_rows.device
        starts = torch.from_numpy(self._starts).to(device)
        total = of_rows.index_select(0, starts).double()
        for k in range(1, self._largest):
            has = torch.from_numpy(np.flatnonzero(self._counts > k)).to(device)
            total[has] += of_rows[starts[has] + k].double()
        counts = torch.from_numpy(self._counts).to(device)
        return (total / counts.view(-1, *(1,) * (total.dim() - 1))).to(of_rows.dtype)

    def shares(self, of_persons: Tensor, rows: int) -> Tensor:
        """Give each row its part of a number (..., P) of its person; 0 to the last of `rows`."""
        parts = of_persons.cpu().numpy() / self._counts
        found = np.zeros((*parts.shape[:-1], rows))
        found[..., : self._counts.sum()] = np.repeat(parts, self._counts, axis=-1)
        return torch.from_numpy(found).to(of_persons.device)

    def squares(self, of_rows: Tensor, sides: Sides, terms: int) -> Tensor:
        """Squared norms of the persons' mean gradients, bounded from above.

        `of_rows` (rows,): squared norms of the rows' gradients. `terms`: as in
        `product_error`. Result (P,): at least
        ``CANCELLED**2`` times the squared mean of the rows' norms, for a person of several rows.
        """
        own = of_rows.cpu().numpy()[: self._counts.sum()]
        found, norms = (np.add.reduceat(values, self._starts) for values in (own, np.sqrt(own)))
        several = np.flatnonzero(self._counts > 1)
        sorts = [several]
        if len(several) * self._largest > _PADDED:  # else to fill all up costs less than two calls
            few = self._counts[several] <= (self._largest + 1) // 2
            sorts = [several[few], several[~few]]
        for some in sorts:
            if len(some):
                lengths = norms[some] ** 2
                raised = self._sum_squares(some, sides).cpu().numpy()
                raised += 2.0 * product_error(terms, self.most) * lengths
                found[some] = np.maximum(raised, CANCELLED**2 * lengths)
        return torch.from_numpy(found / self._counts**2).to(of_rows.device)

    def _sum_squares(self, persons: np.ndarray, sides: Sides) -> Tensor:
        """Squared norms of the sums of some persons' gradients, up to rounding."""
        counts, device = self._counts[persons, None], sides[0][1].device
        places = np.arange(int(counts.max()))
        rows = self._starts[persons, None] + np.minimum(places, counts - 1)
        index = torch.from_numpy(rows.ravel()).to(device)
        # What fills a person up has no upstream gradient.
        within = torch.from_numpy((places < counts).astype(np.float64)[:, :, None]).to(device)
        total = torch.zeros(len(persons), dtype=torch.float64, device=device)

        def of(values: Tensor) -> Tensor:
            return values.index_select(0, index).view(*rows.shape, values.shape[1])

        for inputs, deltas in sides:
            upstream, rows_of = of(deltas).mul_(within), of(inputs)
            if deltas.shape[1] == 1:
                total += rows_of.mul_(upstream).sum(1).square_().sum(1)
            else:
                gram = torch.bmm(rows_of, rows_of.mT)
                total += gram.mul_(torch.bmm(upstream, upstream.mT)).sum((1, 2))
        return total
