"""Rows that teachers can learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skfairdp.aggregation import assign_shards


@dataclass(frozen=True)
class Private:
    """Rows, class codes and shards."""

    X: np.ndarray
    y: np.ndarray
    shards: np.ndarray

    def without(self, index: int) -> Private:
        """The same with one record removed and everything else fixed."""
        return Private(*(np.delete(a, index, axis=0) for a in (self.X, self.y, self.shards)))


def private_rows(n: int = 300, n_teachers: int = 8, n_classes: int = 2, seed: int = 0) -> Private:
    """Noisy linear classes in five columns."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 5))
    scores = X[:, :n_classes] + 0.3 * generator.normal(size=(n, n_classes))
    return Private(X, scores.argmax(axis=1), assign_shards(n, n_teachers, generator))
