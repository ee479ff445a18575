"""Clip norms that balance bias and noise, after Theorems 6 and 7 of the PF-LD paper.

A small clip norm cuts gradients off, a large one needs more noise. Both theorems add the two
errors. Their constants follow from Theorems 1 and 2, which understate the sensitivity; here
they come from the noise that is added to the blocks of the groups. Features and labels are
public where only the attribute is protected, and so are the norms of all rows' gradients at
released weights: they stand in for those of a group, which are secret.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["best_clip", "dual_error_bound", "primal_error_bound"]


def primal_error_bound(
    clip: float,
    norms: ArrayLike,
    *,
    noise_std: float,
    n_parameters: int,
    group_weights: ArrayLike,
) -> float:
    """Bound the expected error of the weighted sum of the groups' mean gradients.

    `clip`: c_p, > 0. `norms` (n,): norms of the rows' gradients of rates, public or released.
    `noise_std`: standard deviation of the noise on a coordinate of a group's mean gradient at
    ``clip=1``: noise multiplier over the (released) size of the group in a batch. `group_weights`
    (n_groups,): size of each group's multiplier. Result: ``clip * noise_std * sqrt(p) * ||w||_2 +
    sum_k w_k * mean(max(0, norm - clip))``.

    Examples
    --------
    >>> from skfairdp.inprocessing.clip_choice import primal_error_bound
    >>> primal_error_bound(1.0, [0.5, 3.0], noise_std=0.1, n_parameters=4, group_weights=[1.0])
    1.2
    """
    weights = np.abs(np.asarray(group_weights, dtype=np.float64))
    noise = clip * noise_std * math.sqrt(n_parameters) * float(np.linalg.norm(weights))
    return noise + float(weights.sum()) * _cut(clip, norms)


def dual_error_bound(clip: float, values: ArrayLike, *, noise_std: float) -> float:
    """Bound the expected error of one group's mean constraint value.

    `clip`: c_d, > 0. `values` (n,): constraint values of rows, public or released. `noise_std`:
    standard deviation of the noise on the mean at ``clip=1``. Result: ``clip * noise_std * sqrt(2
    / pi) + mean(max(0, |value| - clip))``.

    Examples
    --------
    >>> from skfairdp.inprocessing.clip_choice import dual_error_bound
    >>> round(dual_error_bound(1.0, [0.5, 2.0], noise_std=0.0), 3)
    0.5
    """
    return clip * noise_std * math.sqrt(2.0 / math.pi) + _cut(clip, values)


def best_clip(sizes: ArrayLike, cost: float) -> float:
    """Minimise ``cost * clip + mean(max(0, size - clip))``.

    `sizes` (n,): norms or values, public or released. `cost`: noise per unit of the clip over the
    bias' factor: for gradients ``noise_std * sqrt(p) * ||w||_2 / ||w||_1``, for values
    ``noise_std * sqrt(2 / pi)``. Result: the quantile at ``1 - cost``: just so many records are
    cut off that more would cost more. The smallest size where noise outweighs any signal (``cost
    >= 1``).

    Examples
    --------
    >>> from skfairdp.inprocessing.clip_choice import best_clip
    >>> best_clip([1.0, 2.0, 3.0, 4.0], 0.25)
    3.0
    """
    ordered = np.sort(np.abs(np.asarray(sizes, dtype=np.float64)))
    rank = math.ceil((1.0 - cost) * len(ordered) - 1e-9)
    return float(ordered[min(max(rank, 1), len(ordered)) - 1])


def _cut(clip: float, sizes: ArrayLike) -> float:
    sizes = np.abs(np.asarray(sizes, dtype=np.float64))
    return float(np.maximum(sizes - clip, 0.0).mean())
