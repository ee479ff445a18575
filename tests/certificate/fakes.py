"""Small estimators with the hooks that `certify` asks for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from dp_accounting.dp_event import GaussianDpEvent
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.privacy import PrivacyGuarantee, epsilon
from skfairdp.privacy.streams import row_uniforms
from skfairdp.protocol import Certifiable


def stated(sigma: float = 5.0, **changes: Any) -> PrivacyGuarantee:
    event = GaussianDpEvent(sigma)
    adjacency = changes.pop("adjacency", "zero-out")
    return PrivacyGuarantee(
        epsilon(event, 1e-6, adjacency), 1e-6, adjacency, event=event, **changes
    )


class ThresholdClassifier(Certifiable, ClassifierMixin, BaseEstimator):
    """Predicts whether a weighted sum exceeds a threshold; the weights are given.

    With `spread` it does so with a probability, by a draw that a key fixes for a row.
    """

    _charges_privacy = True
    key = b"one of many"

    def __init__(self, weights=(1.0, 0.0), threshold=0.0, random_state=None, spread=None):
        self.weights = weights
        self.threshold = threshold
        self.random_state = random_state
        self.spread = spread

    def fit(self, X, y=None, *, sensitive_features=None):
        self.coef_ = np.array(self.weights, dtype=float)
        self.n_features_in_ = len(self.coef_)
        self.classes_ = np.array([0, 1]) if y is None else np.unique(y)
        self.groups_ = (
            None if sensitive_features is None else tuple(sorted(set(sensitive_features)))
        )
        self.privacy_ = stated()
        return self

    def _score(self, X):
        return np.asarray(X, dtype=float) @ self.coef_ - self.threshold

    def predict(self, X):
        if self.spread is not None:
            draws = row_uniforms(np.asarray(X, dtype=float), self.key)
            return self.classes_[(draws < self._success_scores(X)).astype(int)]
        return self.classes_[(self._score(X) > 0).astype(int)]

    def _success_scores(self, X):
        return None if self.spread is None else 1 / (1 + np.exp(-self._score(X) / self.spread))

    def _mechanism_fairness(self, notion):
        if notion != "demographic_parity" or self.groups_ is None:
            return []
        return [
            FairnessGuarantee(
                notion, 0.7, "training mechanism", "noise", assumptions=("averaged rates",)
            )
        ]

    def _changed_since_fit(self):
        return ()  # tests state other guarantees than fit did


class Doubler(Certifiable, TransformerMixin, BaseEstimator):
    """A step that learns nothing."""

    _learns_from_rows = False

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return 2.0 * np.asarray(X)


class PrivateCenterer(Certifiable, TransformerMixin, BaseEstimator):
    """A step of this package that charges privacy."""

    _charges_privacy = True

    def fit(self, X, y=None):
        self.privacy_ = stated(10.0)
        return self

    def transform(self, X):
        return np.asarray(X) - 0.0

    def _changed_since_fit(self):
        return ()


class Rows(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray


def people() -> Rows:
    """600 rows of two groups that differ in the first feature."""
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 300)
    X = rng.normal(size=(600, 2))
    X[:300, 0] += 0.2
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
    return Rows(X, y, groups)
