"""Bounds that hold before any evaluation, from the noise of the last head step.

They are about rates *averaged over the last noise*, never about one released model, and in
ordinary settings they are 1. docs/theory/fairdp.md derives them and corrects the published form.
"""

from __future__ import annotations

import math
from typing import Literal

from scipy import special, stats

HEAD_INPUTS = (
    "max_head_norm", "max_grad_norm", "learning_rate", "noise_std", "n_heads", "prediction",
    "group_update", "expected_batch_size", "n_groups",
)  # fmt: skip
Prediction = Literal["score_mean", "vote", "gibbs"]
GroupUpdate = Literal["mean", "sum"]


def theorem2_bound(
    *,
    max_head_norm: float,
    max_grad_norm: float,
    learning_rate: float,
    noise_std: float,
    n_heads: int = 1,
    prediction: Prediction = "score_mean",
    group_update: GroupUpdate = "mean",
    expected_batch_size: float | None = None,
    n_groups: int | None = None,
) -> float:
    """Bound on the difference of averaged rates between any two groups (Theorem 2).

    Its conditions, which `theorem2_guarantee` words, are the caller's to check.

    Parameters
    ----------
    max_head_norm : float > 0
        L2 bound M of the head's weights before the last step.
    max_grad_norm : float > 0
        Clipping norm C of a record's gradient.
    learning_rate : float > 0
        Learning rate of the last step.
    noise_std : float >= 0
        Standard deviation of the noise on each coordinate of the last head update, before the
        learning rate, with a single head: ``(sigma C / K) sqrt(sum_k 1 / b_k**2)`` in the
        published mean form, ``C sigma / sqrt(K)`` in the sum form.
    n_heads : int, default=1
        Number N of heads from the micro-batches of the last step.
    prediction : {"score_mean", "vote", "gibbs"}, default="score_mean"
        How the heads decide together; all alike for one head.
    group_update : {"mean", "sum"}, default="mean"
        "mean" divides each group's sum by its expected batch size, "sum" does not.
    expected_batch_size : float, optional
        Total expected batch size over the groups, in records; for "sum" only.
    n_groups : int, optional
        Number of groups; for "sum" only.

    Returns
    -------
    float
        The bound, in [0, 1].

    Raises
    ------
    ValueError
        When ``group_update="sum"`` lacks its two figures, or a name is unknown.

    Examples
    --------
    >>> from skfairdp.fairness.bounds.head_noise import theorem2_bound
    >>> round(theorem2_bound(max_head_norm=0.1, max_grad_norm=0.1, learning_rate=1.0,
    ...                      noise_std=1.0), 4)
    0.1585
    """
    if n_heads < 1:
        raise ValueError(f"n_heads={n_heads} must be at least 1.")
    std = learning_rate * noise_std
    if group_update == "mean":
        # Each micro-batch mean has the norm of the whole mean and n_heads times its noise.
        step, head_std = max_grad_norm, n_heads * std
    elif group_update == "sum":
        if expected_batch_size is None or n_groups is None:
            raise ValueError(
                "group_update='sum' needs expected_batch_size and n_groups, because the norm of "
                "a sum of gradients grows with the batch."
            )
        # Micro-batch sums are n_heads times shorter and have the same noise.
        step, head_std = expected_batch_size * max_grad_norm / (n_groups * n_heads), std
    else:
        raise ValueError(f"group_update={group_update!r} is not known; use 'mean' or 'sum'.")
    reach = max_head_norm + learning_rate * step
    if head_std == 0.0:
        return 1.0
    ratio = reach / head_std
    one = float(special.erf(ratio / math.sqrt(2.0)))
    if prediction == "gibbs" or n_heads == 1:
        return one
    if prediction == "score_mean":
        # The average of the heads is one head with n_heads times less variance.
        return float(special.erf(ratio * math.sqrt(n_heads / 2.0)))
    if prediction == "vote":
        # Chances of at least half of the votes.
        p, fewer = 0.5 + 0.5 * one, math.ceil(n_heads / 2) - 1
        high, low = stats.binom.sf(fewer, n_heads, [p, 1.0 - p])
        return float(min(1.0, max(0.0, high - low)))
    raise ValueError(f"prediction={prediction!r} is not known; use 'score_mean', 'vote', 'gibbs'.")
