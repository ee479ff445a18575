"""Classifiers that decide by one or several linear heads over shared features."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from skfairdp.foundation.parameters import NONE, POSITIVE, PROBABILITY, Choice
from skfairdp.inprocessing.gradient import GradientClassifier
from skfairdp.privacy.streams import row_uniforms
from skfairdp.records.stored_rows import in_chunks

if TYPE_CHECKING:
    from torch import nn


def logit(probability: float) -> float:
    """Score at which a logistic model has the given probability; exactly 0 for 0.5."""
    return math.log(probability) - math.log1p(-probability)


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

    heads_: np.ndarray = field(init=False)
    head_name_: str = field(init=False)
    key_: bytes = field(init=False)

    @property
    def _draws_decisions(self) -> bool:
        return self.smoothing is not None or self.prediction == "gibbs"

    @in_chunks
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Estimate class probabilities.

        Returns
        -------
        ndarray of float64, shape (n_samples, 2)
            The second column is the logistic function of the mean score, the share
            of heads that decide for the second class ("vote", "gibbs"), or with
            `smoothing` the exact probability that a fresh draw does.
        """
        X = self._features(X)
        positive = self._positive(self._embed(X))
        return np.column_stack([1.0 - positive, positive])

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Compute a score that is positive where the second class is predicted.

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
        return self.classes_[self._decide(self._embed(X), X).astype(np.int64)]

    def _success_scores(self, X: ArrayLike) -> np.ndarray | None:
        drawn = self._draws_decisions
        return self.predict_proba(X)[:, 1] if drawn else None

    def _head(self) -> nn.Linear:
        from torch import nn

        head = dict(self.module_.named_modules())[self.head_name_]
        assert isinstance(head, nn.Linear)
        return head

    def _embed(self, X: np.ndarray) -> np.ndarray:
        from skfairdp.engine.inference import features_and_output

        return features_and_output(self.module_, self._head(), X)[0]

    def _scores(self, features: np.ndarray) -> np.ndarray:
        """Score of every head, (n, n_heads), from features (n, d); a head may end in a bias."""
        from skfairdp.engine.exact_products import exact_matmul

        d = features.shape[1]
        scores = exact_matmul(features, self.heads_[:, :d].T)
        return scores + self.heads_[:, d:].sum(axis=1)

    def _positive(self, features: np.ndarray) -> np.ndarray:
        """Probability of the second class: over draws, or over heads, or of the score."""
        scores, cut = self._scores(features), logit(self.threshold)
        if self.smoothing is not None:
            has_bias = self.heads_.shape[1] - features.shape[1]
            scale = self.smoothing * np.sqrt((features**2).sum(axis=1) + has_bias)
            margin = scores.mean(axis=1) - cut
            with np.errstate(divide="ignore", invalid="ignore"):
                z = np.where(scale > 0.0, margin / scale, np.sign(margin) * np.inf)
            return norm.cdf(np.nan_to_num(z, nan=0.0, posinf=np.inf, neginf=-np.inf))
        if self.prediction == "score_mean":
            return 0.5 * (1.0 + np.tanh(0.5 * scores.mean(axis=1)))
        return (scores > cut).mean(axis=1)

    def _decide(self, features: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Decide for the second class (True) or the first, by draws that the rows `X` key."""
        if self.smoothing is not None:
            return row_uniforms(X, self.key_) < self._positive(features)
        scores, cut = self._scores(features), logit(self.threshold)
        if self.prediction == "score_mean":
            return scores.mean(axis=1) > cut
        above = scores > cut
        if self.prediction == "vote":
            return above.mean(axis=1) >= 0.5
        chosen = (row_uniforms(X, self.key_) * len(self.heads_)).astype(np.int64)
        return above[np.arange(len(X)), chosen]
