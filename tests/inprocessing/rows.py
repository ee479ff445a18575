"""Small training rows for tests of mechanisms."""

from __future__ import annotations

import numpy as np


def two_groups(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Separable rows; group "b" is a quarter of them and has fewer positives."""
    rng = np.random.default_rng(seed)
    groups = np.where(rng.random(n) < 0.25, "b", "a")
    y = (rng.random(n) < np.where(groups == "a", 0.6, 0.3)).astype(int)
    X = rng.normal(size=(n, 5)) + 1.5 * y[:, None] * np.array([1, 1, 0, 0, 0])
    return X, y, groups
