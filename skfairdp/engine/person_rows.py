"""The rows of a batch by their persons: means of vectors, and norms of means.

A person's vector is the mean of those of its rows. A mean is a sum in float64, row after row, over
the number of rows, so it depends on the person's rows alone, to the last bit. Where gradients are
never formed, its squared norm is the sum over pairs of rows of their inner products, which follow
from inputs and upstream gradients (`squares_of_means`): what is added to the batch's sum is each
row's gradient, times the person's clip factor over its number of rows. Rows of a person may cancel
each other; what that means for rounding is written in :mod:`skfairdp.engine.clipping.norms`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from skfairdp.engine.clipping.norms import CANCELLED, product_error
from skfairdp.records.sampling import PersonRows

# Inputs of a layer, with a column of ones for its bias, and upstream gradients: the gradient of a
# row is their product.
Sides = Sequence[tuple[Tensor, Tensor]]

# Number of padding rows that costs as much as handling short and long persons apart.
_PADDED = 1024


def means(persons: PersonRows, of_rows: Tensor) -> Tensor:
    """Mean over each person's rows, in the dtype that these have."""
    device = of_rows.device
    starts = torch.from_numpy(persons.starts).to(device)
    total = of_rows.index_select(0, starts).double()
    for k in range(1, persons.largest):
        has = torch.from_numpy(np.flatnonzero(persons.counts > k)).to(device)
        total[has] += of_rows[starts[has] + k].double()
    counts = torch.from_numpy(persons.counts).to(device)
    return (total / counts.view(-1, *(1,) * (total.dim() - 1))).to(of_rows.dtype)


def shares(persons: PersonRows, of_persons: Tensor, rows: int) -> Tensor:
    """Give each row its part of a number (..., P) of its person; 0 to the last of `rows`."""
    parts = of_persons.cpu().numpy() / persons.counts
    found = np.zeros((*parts.shape[:-1], rows))
    found[..., : persons.counts.sum()] = np.repeat(parts, persons.counts, axis=-1)
    return torch.from_numpy(found).to(of_persons.device)


def squares_of_means(persons: PersonRows, of_rows: Tensor, sides: Sides, terms: int) -> Tensor:
    """Squared norms of the persons' mean gradients, bounded from above.

    `of_rows` (rows,): squared norms of the rows' gradients. `terms`: as in
    `product_error`. Result (P,): at least
    ``CANCELLED**2`` times the squared mean of the rows' norms, for a person of several rows.
    """
    own = of_rows.cpu().numpy()[: persons.counts.sum()]
    found, norms = (np.add.reduceat(values, persons.starts) for values in (own, np.sqrt(own)))
    several = np.flatnonzero(persons.counts > 1)
    sorts = [several]
    if len(several) * persons.largest > _PADDED:  # else to fill all up costs less than two calls
        few = persons.counts[several] <= (persons.largest + 1) // 2
        sorts = [several[few], several[~few]]
    for some in sorts:
        if len(some):
            lengths = norms[some] ** 2
            raised = _sum_squares(persons, some, sides).cpu().numpy()
            raised += 2.0 * product_error(terms, persons.most) * lengths
            found[some] = np.maximum(raised, CANCELLED**2 * lengths)
    return torch.from_numpy(found / persons.counts**2).to(of_rows.device)


def _sum_squares(persons: PersonRows, some: np.ndarray, sides: Sides) -> Tensor:
    """Squared norms of the sums of some persons' gradients, up to rounding."""
    counts, device = persons.counts[some, None], sides[0][1].device
    places = np.arange(int(counts.max()))
    rows = persons.starts[some, None] + np.minimum(places, counts - 1)
    index = torch.from_numpy(rows.ravel()).to(device)
    # What fills a person up has no upstream gradient.
    within = torch.from_numpy((places < counts).astype(np.float64)[:, :, None]).to(device)
    total = torch.zeros(len(some), dtype=torch.float64, device=device)

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
