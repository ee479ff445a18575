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

from skfairdp.engine.clipping.norms import CANCELLED

__all__ = ["PersonRows"]

# Inputs and upstream gradients of a layer, and whether its weight and its bias are trained.
Sides = Sequence[tuple[Tensor, Tensor, bool, bool]]


class PersonRows:
    """How many rows of a batch each of its persons has; rows of one stand together.

    `counts` (P,): at least 1. `most`: no count is larger; a public number.
    """

    def __init__(self, counts: np.ndarray, most: int) -> None:
        self.most = most
        self._counts = counts
        self._starts = np.cumsum(counts) - counts
        self._largest = int(counts.max(initial=1))

    def __len__(self) -> int:
        """Return the number of persons."""
        return len(self._counts)

    def blocks(self, rows: int) -> Iterator[tuple[slice, slice, PersonRows]]:
        """Cut a batch into blocks of at most `rows` rows that hold whole persons.

        Yields the slice of the rows, that of the persons, and the persons of the block.
        """
        ends, first = self._starts + self._counts, 0
        while first < len(self):
            begin = int(self._starts[first])
            stop = int(np.searchsorted(ends, begin + rows, side="right"))
            part = slice(first, stop)
            yield slice(begin, int(ends[stop - 1])), part, PersonRows(self._counts[part], self.most)
            first = stop

    def sums(self, of_rows: Tensor) -> Tensor:
        """Add up what each person's rows have, in float64 and in the order of the rows."""
        device = of_rows.device
        starts = torch.from_numpy(self._starts).to(device)
        total = of_rows.index_select(0, starts).double()
        for k in range(1, self._largest):
            has = torch.from_numpy(np.flatnonzero(self._counts > k)).to(device)
            total[has] += of_rows[starts[has] + k].double()
        return total

    def means(self, of_rows: Tensor) -> Tensor:
        """Mean over each person's rows, in the dtype that these have."""
        if self._largest == 1:
            return of_rows[: len(self)]
        total = self.sums(of_rows)
        counts = torch.from_numpy(self._counts).to(total.device)
        return (total / counts.view(-1, *(1,) * (total.dim() - 1))).to(of_rows.dtype)

    def shares(self, of_persons: Tensor, rows: int) -> Tensor:
        """Give each row its part of a number (..., P) of its person; 0 to the last of `rows` rows.

        Result (..., rows).
        """
        counts = torch.from_numpy(self._counts).to(of_persons.device)
        parts = (of_persons / counts).repeat_interleave(counts, dim=-1)
        found = parts.new_zeros((*parts.shape[:-1], rows))
        found[..., : parts.shape[-1]] = parts
        return found

    def squares(self, of_rows: Tensor, sides: Sides, relative: float) -> Tensor:
        """Squared norms of the persons' mean gradients, bounded from above.

        `of_rows` (rows,): squared norms of the rows' gradients. `relative`: error of an inner
        product of two gradients over the product of their norms. Result (P,): at least
        ``CANCELLED**2`` times the squared mean of the rows' norms, for a person of several rows.
        """
        if self._largest == 1:
            return of_rows[: len(self)].clone()
        several = np.flatnonzero(self._counts > 1)
        counts, places = self._counts[several], np.arange(self._largest)
        within = places < counts[:, None]
        rows = self._starts[several, None] + np.minimum(places, counts[:, None] - 1)
        pairs = within[:, :, None] & within[:, None, :] & ~np.eye(self._largest, dtype=bool)
        index, device = torch.from_numpy(rows.ravel()).to(of_rows.device), of_rows.device
        products = of_rows.new_zeros(pairs.shape)
        for inputs, deltas, weight, bias in sides:
            of_deltas, of_inputs = (
                t.index_select(0, index).view(*rows.shape, -1) for t in (deltas, inputs)
            )
            gram = torch.bmm(of_inputs, of_inputs.mT) if weight else torch.zeros_like(products)
            products += (gram + float(bias)).mul_(torch.bmm(of_deltas, of_deltas.mT))
        crossed = products.masked_fill_(torch.from_numpy(~pairs).to(device), 0.0).sum((1, 2))
        found, norms = self.sums(of_rows), self.sums(of_rows.sqrt())
        own = torch.from_numpy(several).to(device)
        lengths = norms[own].square_()
        raised = found[own] + crossed + 2.0 * relative * lengths
        found[own] = torch.maximum(raised, CANCELLED**2 * lengths)
        return found / torch.from_numpy(self._counts).to(device).square()
