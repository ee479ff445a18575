"""Classifiers that decide by one or several linear heads over shared features."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from torch import nn

from skfairdp.datasets.stored_rows import in_chunks
from skfairdp.engine.exact_products import exact_matmul
from skfairdp.engine.inference import features_and_output
from skfairdp.engine.keyed_draws import row_uniforms
from skfairdp.inprocessing.gradient import GradientClassifier
from skfairdp.parameters import NONE, POSITIVE, PROBABILITY, Choice


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
        """Probability of the second class: over draws, or over heads, or of the score."""
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
        """Decide for the second class (True) or the first, by draws that the rows `X` key."""
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


class EnsembleClassifier(GradientClassifier):
    """Template of a binary classifier whose training ends with several heads.

    A subclass sets ``heads_``, ``head_name_`` and ``key_`` when it trains.

    Parameters
    ----------
    prediction : {"score_mean", "vote", "gibbs"}
        Mean score of the heads, their majority, or a head drawn for each row.
    smoothing : float or None
        Standard deviation of Gaussian noise drawn afresh for each row on the mean
        head, at prediction. Costs accuracy, and bounds how sharply rates can differ.
    threshold : float
        Probability above which the second class is predicted.
    """

    prediction: str = "score_mean"
    smoothing: float | None = None
    threshold: float = 0.5

    _multiclass: ClassVar[bool] = False
    _parameters = {
        "prediction": (Choice(("score_mean", "vote", "gibbs")),),
        "smoothing": (POSITIVE, NONE),
        "threshold": (PROBABILITY,),
    }
    _released = (*GradientClassifier._released, "head_name_", "heads_", "key_")

    heads_: np.ndarray = field(init=False)
    head_name_: str = field(init=False)
    key_: bytes = field(init=False)

    @in_chunks
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Estimate class probabilities.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        ndarray of float64, shape (n_samples, 2)
            The second column is the logistic function of the mean score, the share
            of heads that decide for the second class ("vote", "gibbs"), or with
            `smoothing` the exact probability that a fresh draw does.
        """
        X = self._features(X)
        positive = self._ensemble().positive(self._embed(X))
        return np.column_stack([1.0 - positive, positive])

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Compute a score that is positive where the second class is predicted.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            Log-odds of the second class, less those of `threshold`. Where decisions are
            drawn ("gibbs" and `smoothing`), the log-odds of the draw.
        """
        score = super().decision_function(X)
        plain = self.prediction == "score_mean" and self.smoothing is None
        return score - logit(self.threshold) if plain else score

    @in_chunks
    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class of each row.

        With ``prediction="gibbs"`` or `smoothing` the draw is a keyed function of
        the row, so that the same row always gets the same answer.
        """
        X = self._features(X)
        positive = self._ensemble().decide(self._embed(X), X)
        return self.classes_[positive.astype(np.int64)]

    def _success_scores(self, X: ArrayLike) -> np.ndarray | None:
        return self.predict_proba(X)[:, 1] if self._ensemble().randomised else None

    def _head(self) -> nn.Linear:
        head = dict(self.module_.named_modules())[self.head_name_]
        assert isinstance(head, nn.Linear)
        return head

    def _embed(self, X: np.ndarray) -> np.ndarray:
        return features_and_output(self.module_, self._head(), X)[0]

    def _ensemble(self) -> HeadEnsemble:
        return HeadEnsemble(
            heads=self.heads_,
            bias=self._head().bias is not None,
            prediction=self.prediction,
            smoothing=self.smoothing,
            cut=logit(self.threshold),
            key=self.key_,
        )
