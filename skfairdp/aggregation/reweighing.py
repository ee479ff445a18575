"""Fair learners for teachers and students that get groups in the clear."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression

from skfairdp.documentation import complete_docstrings


class ReweighedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Fit a classifier on rows weighted so that label and group are independent.

    A row of group a and label y gets the weight P(a) P(y) / P(a, y). Not private by
    itself: it is a teacher or a student of `SFPATEClassifier`.

    Parameters
    ----------
    estimator : classifier or None, default=None
        Its `fit` takes ``sample_weight``. None is a logistic regression.

    References
    ----------
    Kamiran and Calders, "Data preprocessing techniques for classification without
    discrimination", Knowledge and Information Systems, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.aggregation import ReweighedClassifier
    >>> X, y, a = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1], [0, 1, 0, 1]
    >>> ReweighedClassifier().fit(X, y, sensitive_features=a).predict(X).tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, sensitive_features: ArrayLike
    ) -> ReweighedClassifier:
        """Weight the rows and fit.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows.
        y : array-like, shape (n_samples,)
            Labels.
        sensitive_features : array-like, shape (n_samples,)
            Groups.

        Returns
        -------
        self
        """
        labels = np.unique(np.asarray(y), return_inverse=True)[1]
        groups = np.unique(np.asarray(sensitive_features), return_inverse=True)[1]
        table = np.zeros((groups.max() + 1, labels.max() + 1))
        np.add.at(table, (groups, labels), 1.0)
        expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
        weights = expected[groups, labels] / table[groups, labels]
        base = LogisticRegression(max_iter=1000) if self.estimator is None else self.estimator
        self.estimator_ = clone(base).fit(X, y, sample_weight=weights)
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        return self.estimator_.predict(X)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        return self.estimator_.predict_proba(X)


complete_docstrings(ReweighedClassifier)


class GroupTeacher(ClassifierMixin, BaseEstimator):
    """Teacher that finds the groups of its rows in the last column, and hands them over."""

    def __init__(self, estimator: Any, random_state: int | None = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> GroupTeacher:
        """Fit on all columns but the last."""
        groups = X[:, -1].astype(np.int64)
        self.estimator_ = clone(self.estimator)
        self.estimator_.fit(X[:, :-1], y, sensitive_features=groups)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict class codes from all columns but the last."""
        drawn = "random_state" in inspect.signature(self.estimator_.predict).parameters
        settings = {"random_state": self.random_state} if drawn else {}
        return self.estimator_.predict(X[:, :-1], **settings)
