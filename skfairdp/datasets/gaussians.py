"""Gaussian classes whose label is tied to a group: the synthetic data of the FairDP experiments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils import Bunch, check_random_state

from .source import assemble, read_card


def make_biased_gaussians(
    n_samples: int = 10_000,
    n_features: int = 12,
    *,
    positive_rate: float = 0.8,
    covariance: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Draw two Gaussian classes whose label is tied to a group.

    Parameters
    ----------
    n_samples : int, default=10000
        Number of rows, at least 2; half of them, rounded up, are in group "A".
    n_features : int, default=12
        Number of features, at least 1.
    positive_rate : float, default=0.8
        Share of label 1 in group "A" and of label 0 in group "B", in [0, 1]; met to the row.
    covariance : array-like of shape (n_features, n_features) or None, default=None
        Covariance of the features given the label. None is the identity plus a matrix of ones.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`; `sensitive_features` is "A" or "B".

    Raises
    ------
    ValueError
        If a size or the rate is out of range, or the covariance is not symmetric and positive
        semi-definite of the right shape.

    Examples
    --------
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> drawn = make_biased_gaussians(100, random_state=0)
    >>> drawn.target.groupby(drawn.sensitive_features).mean().to_dict()
    {'A': 0.8, 'B': 0.2}
    """
    if n_samples < 2 or n_features < 1:
        raise ValueError(
            f"n_samples={n_samples!r}, n_features={n_features!r}. Allowed are n_samples >= 2 and "
            "n_features >= 1."
        )
    if not 0.0 <= positive_rate <= 1.0:
        raise ValueError(f"positive_rate is {positive_rate!r}. Allowed is a number in [0, 1].")
    spread = np.eye(n_features) + 1.0 if covariance is None else np.asarray(covariance, dtype=float)
    if spread.shape != (n_features, n_features) or not np.allclose(spread, spread.T):
        raise ValueError(
            f"covariance has shape {spread.shape}. Allowed is a symmetric matrix of shape "
            f"{(n_features, n_features)}."
        )
    scales, axes = np.linalg.eigh(spread)
    if scales[0] < -1e-9 * max(scales[-1], 1.0):
        raise ValueError("covariance has a negative eigenvalue. Give a positive semi-definite one.")
    generator = check_random_state(random_state)
    half = (n_samples + 1) // 2
    ones = round(positive_rate * half), round((1.0 - positive_rate) * (n_samples - half))
    place, order = np.arange(n_samples), generator.permutation(n_samples)
    group = np.where(place < half, "A", "B").astype(object)[order]
    label = np.where(place < half, place < ones[0], place - half < ones[1]).astype(int)[order]
    root = axes * np.sqrt(np.clip(scales, 0.0, None))
    values = generator.standard_normal((n_samples, n_features)) @ root.T
    values += np.where(label == 1, 1.0, -1.0)[:, None]
    names = [f"x{index}" for index in range(n_features)]
    reach = 1.0 + 5.0 * np.sqrt(np.clip(np.diag(spread), 0.0, None))
    bounds = {n: (-float(r), float(r)) for n, r in zip(names, reach, strict=True)}
    return assemble(
        pd.DataFrame(values, columns=names),
        card=replace(read_card("gaussians"), bounds=bounds),
        target=pd.Series(label, name="label"),
        available={"group": pd.Series(group)},
        include_sensitive=True,
        drop_leaks=True,
        source="a random generator",
    )
