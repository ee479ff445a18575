"""Features within declared bounds as rows in the unit ball."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class BoundedRows:
    """A map from rows of features to rows of norm at most 1, made of declared figures.

    Features are clipped to their bounds and divided by the larger bound in absolute value,
    so that zeros stay zeros and a one-hot column keeps its sparsity. Longer rows are then
    shortened to `max_norm`, and a constant coordinate is appended inside the ball.
    """

    lower: np.ndarray  # lower, upper: (n_features,): bounds of each feature
    upper: np.ndarray
    max_norm: float  # L2 norm to which scaled rows are shortened
    intercept: float  # The constant coordinate, in [0, 1); 0 appends none

    @classmethod
    def declared(
        cls, bounds: Any, n_features: int, *, max_norm: float, intercept: float
    ) -> BoundedRows:
        """Check declared bounds, and take `max_norm` for at most ``sqrt(n_features)``."""
        wanted = (
            "'feature_bounds' must be a pair (lower, upper) of finite numbers, or of sequences "
            f"with one number for each of the {n_features} features"
        )
        try:
            low, high = (
                np.broadcast_to(np.asarray(side, dtype=np.float64), (n_features,)).copy()
                for side in bounds
            )
        except (TypeError, ValueError):
            raise ValueError(
                f"{wanted}; got {bounds!r}. Unbounded features cannot be protected: declare what "
                "the codebook allows, or scale with PublicScaler and declare (-1, 1)."
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError(
                f"{wanted}; some are infinite or NaN. Unbounded features cannot be protected."
            )
        if not (low <= high).all():
            raise ValueError(f"{wanted}; some lower bounds are above the upper ones.")
        return cls(low, high, min(max_norm, math.sqrt(n_features)), intercept)

    @property
    def d(self) -> int:
        """Coordinates of a mapped row."""
        return len(self.lower) + int(self.intercept > 0.0)

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Map rows of finite features into the unit ball, (n, d)."""
        largest = np.maximum(np.abs(self.lower), np.abs(self.upper))
        scaled = np.clip(np.asarray(X, dtype=np.float64), self.lower, self.upper)
        scaled /= np.where(largest > 0.0, largest, 1.0)
        norms = np.sqrt(np.square(scaled).sum(axis=1))
        scaled *= (math.sqrt(1.0 - self.intercept**2) / np.maximum(norms, self.max_norm))[:, None]
        if self.intercept == 0.0:
            return scaled
        return np.column_stack([scaled, np.full(len(scaled), self.intercept)])
