"""Decisions from one linear head, from many, or from a smoothed one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from skfairdp.engine.exact_products import exact_matmul
from skfairdp.engine.keyed_draws import row_uniforms


def logit(probability: float) -> float:
    """Score at which a logistic model has the given probability; exactly 0 for 0.5."""
    return math.log(probability) - math.log1p(-probability)


@dataclass(frozen=True)
class HeadEnsemble:
    """Linear heads over shared features, and how they decide together."""

    heads: np.ndarray  # (n_heads, p): weights of each head, its bias last where it has one
    bias: bool  # Whether the last column is a bias
    # Mean score of the heads (itself one linear head), majority of their decisions, or the
    # decision of a head drawn for each row
    prediction: str
    # Standard deviation of the Gaussian noise drawn afresh for each row on the mean head
    smoothing: float | None
    cut: float  # Score above which a head decides for the second class
    key: bytes  # Makes the draws of "gibbs" and of smoothing a function of the row

    @property
    def randomised(self) -> bool:
        """Whether a row's decision is drawn."""
        return self.smoothing is not None or self.prediction == "gibbs"

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Score of every head, shape (n, n_heads), from features of shape (n, d)."""
        if self.bias:
            return exact_matmul(features, self.heads[:, :-1].T) + self.heads[:, -1]
        return exact_matmul(features, self.heads.T)

    def positive(self, features: np.ndarray) -> np.ndarray:
        """Probability of the second class: over draws, or over heads, or of the score.

        `features` (n, d): what enters the heads. Result (n,).
        """
        scores = self.scores(features)
        if self.smoothing is not None:
            spread = np.sqrt((features**2).sum(axis=1) + float(self.bias))
            margin = scores.mean(axis=1) - self.cut
            scale = self.smoothing * spread
            with np.errstate(divide="ignore", invalid="ignore"):
                z = np.where(scale > 0.0, margin / scale, np.sign(margin) * np.inf)
            return norm.cdf(np.nan_to_num(z, nan=0.0, posinf=np.inf, neginf=-np.inf))
        if self.prediction == "score_mean":
            return 0.5 * (1.0 + np.tanh(0.5 * scores.mean(axis=1)))
        return (scores > self.cut).mean(axis=1)

    def decide(self, features: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Decide for the second class (True) or the first (False).

        `features` (n, d): what enters the heads. `X` (n, ...): the rows, which key the draws.
        Result (n,).
        """
        if self.smoothing is not None:
            return row_uniforms(X, self.key) < self.positive(features)
        scores = self.scores(features)
        if self.prediction == "score_mean":
            return scores.mean(axis=1) > self.cut
        above = scores > self.cut
        if self.prediction == "vote":
            return above.mean(axis=1) >= 0.5
        chosen = (row_uniforms(X, self.key) * len(self.heads)).astype(np.int64)
        return above[np.arange(len(X)), chosen]
