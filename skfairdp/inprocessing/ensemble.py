"""Decisions from one linear head, from many, or from a smoothed one."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

__all__ = ["HeadEnsemble", "logit", "row_uniforms"]


def logit(probability: float) -> float:
    """Score at which a logistic model has the given probability; exactly 0 for 0.5."""
    return math.log(probability) - math.log1p(-probability)


def row_uniforms(X: np.ndarray, key: bytes) -> np.ndarray:
    """Draw one number in [0, 1) a row that depends on the row and a key alone.

    The same row always gets the same number, in every process and order of rows.

    Parameters
    ----------
    X : ndarray, shape (n, ...)
        Rows; -0.0 and 0.0, and float32 and float64, are the same value.
    key : bytes
        Up to 64 bytes.

    Returns
    -------
    ndarray of float64, shape (n,)
    """
    canonical = np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float64) + 0.0
    words = [
        int.from_bytes(hashlib.blake2b(row.tobytes(), key=key, digest_size=8).digest(), "little")
        for row in canonical
    ]
    return np.array([word >> 11 for word in words], dtype=np.float64) * 2.0**-53


@dataclass(frozen=True)
class HeadEnsemble:
    """Linear heads over shared features, and how they decide together.

    Parameters
    ----------
    heads : ndarray of float64, shape (n_heads, p)
        Weights of each head, its bias last where it has one.
    bias : bool
        Whether the last column is a bias.
    prediction : {"score_mean", "vote", "gibbs"}
        Mean score of the heads (itself one linear head), majority of their
        decisions, or the decision of a head drawn for each row.
    smoothing : float or None
        Standard deviation of the Gaussian noise drawn afresh for each row on the
        mean head.
    cut : float
        Score above which a head decides for the second class.
    key : bytes
        Makes the draws of "gibbs" and of smoothing a function of the row.
    """

    heads: np.ndarray
    bias: bool
    prediction: str
    smoothing: float | None
    cut: float
    key: bytes

    @property
    def randomised(self) -> bool:
        """Whether a row's decision is drawn."""
        return self.smoothing is not None or self.prediction == "gibbs"

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Score of every head, shape (n, n_heads), from features of shape (n, d)."""
        if self.bias:
            return features @ self.heads[:, :-1].T + self.heads[:, -1]
        return features @ self.heads.T

    def positive(self, features: np.ndarray) -> np.ndarray:
        """Probability of the second class: over draws, or over heads, or of the score.

        Parameters
        ----------
        features : ndarray of float64, shape (n, d)
            What enters the heads.

        Returns
        -------
        ndarray of float64, shape (n,)
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

        Parameters
        ----------
        features : ndarray of float64, shape (n, d)
            What enters the heads.
        X : ndarray, shape (n, ...)
            The rows, which key the draws.

        Returns
        -------
        ndarray of bool, shape (n,)
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
