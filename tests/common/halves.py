"""Test-only estimators whose fit needs no more than rows and labels, as most common checks pass.

scikit-learn's checks and the common ones call ``fit(X, y)``. Nobody should do this with rows
that need protection: half of them get none.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

import skfairdp
from skfairdp import (
    DPAdditiveRegressor,
    DPSGDClassifier,
    DPSGDRegressor,
    FairPATEClassifier,
    FairPathClassifier,
    FairPathRegressor,
    PATEClassifier,
    SFPATEClassifier,
)
from skfairdp.aggregation import ReweighedClassifier
from skfairdp.exceptions import FairnessWarning
from skfairdp.records.labels import encode_labels
from skfairdp.records.rows import check_rows

Half = list[Any]


def half_of(table: Any, start: int) -> Any:
    """Every other row of an array, a table or a list."""
    return (table.iloc if hasattr(table, "iloc") else table)[start::2]


@contextmanager
def halves(estimator: Any, X: Any, y: Any, groups: Any) -> Iterator[tuple[Half, Half]]:
    """Validate, then cut into rows, labels and groups of the private and of the public half.

    Declares the labels of both halves meanwhile: a half may lack one of them.
    """
    declared = estimator.classes
    checked, labels = check_rows(estimator, X, y, labels_declared=declared is not None)
    classes = encode_labels(labels, declared, multiclass=True)[0]
    X = X if isinstance(X, pd.DataFrame) else checked
    if groups is None:
        groups = np.arange(len(labels)) // 2 % 2
    try:
        estimator.classes = classes
        yield tuple([half_of(part, start) for part in (X, labels, groups)] for start in (0, 1))
    finally:
        estimator.classes = declared
    estimator._bind()  # what was declared meanwhile is not a change


def every_other(ids: Any) -> Any:
    """Those of the private half."""
    return None if ids is None else ids[::2]


class HalfPublicPATE(PATEClassifier):
    """PATE that takes every other row as public."""

    def fit(self, X, y, *, sensitive_features=None, person_ids=None):
        with halves(self, X, y, sensitive_features) as (private, public):
            groups = None if sensitive_features is None else private[2]
            return super().fit(
                *private[:2],
                sensitive_features=groups,
                person_ids=every_other(person_ids),
                X_public=public[0],
            )


class HalfPublicFairPATE(FairPATEClassifier):
    """FairPATE that takes every other row as public; without groups it makes some up."""

    def fit(self, X, y, *, sensitive_features=None, person_ids=None):
        with halves(self, X, y, sensitive_features) as (private, public):
            return super().fit(
                *private[:2],
                sensitive_features=None if sensitive_features is None else private[2],
                person_ids=every_other(person_ids),
                X_public=public[0],
                sensitive_features_public=public[2],
            )


class HalfPublicSFPATE(SFPATEClassifier):
    """SF-PATE that takes every other row as public; without groups it makes some up."""

    def fit(self, X, y, *, sensitive_features=None, person_ids=None):
        with halves(self, X, y, sensitive_features) as (private, public):
            return super().fit(
                *private[:2],
                sensitive_features=private[2],
                person_ids=every_other(person_ids),
                X_public=public[0],
                y_public=public[1],
            )


class QuietFairPath(FairPathClassifier):
    """A path that does not say that few rows keep to no tolerance."""

    def fit(self, X, y, *, sensitive_features=None, person_ids=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)
            return super().fit(X, y, sensitive_features=sensitive_features, person_ids=person_ids)


class QuietFairPathOfThree(QuietFairPath):
    """The same with a third class, "perhaps": three rows of nine, by their places."""

    def fit(self, X, y, *, sensitive_features=None, person_ids=None):
        one_column = isinstance(y, np.ndarray | pd.Series) and y.ndim == 1
        labels = {v if isinstance(v, str) else "" for v in y} if one_column else set[str]()
        if labels == {"no", "yes"}:
            third = np.arange(len(y)) // 3 % 3 == 1
            kept = y.where(~third, "perhaps") if isinstance(y, pd.Series) else None
            y = np.where(third, "perhaps", y) if kept is None else kept
        given = {"sensitive_features": sensitive_features, "person_ids": person_ids}
        return super().fit(X, y, **given)


class OfLabels:
    """Takes the labels "no" and "yes" for the numbers 0 and 1."""

    def fit(self, X, y, *, sensitive_features=None, person_ids=None, **weights):
        if isinstance(y, np.ndarray | pd.Series) and y.ndim == 1:
            labels = [v if isinstance(v, str) else "" for v in y]
            if set(labels) <= {"no", "yes"}:
                y = np.array([label == "yes" for label in labels], dtype=np.float64)
        given = {"sensitive_features": sensitive_features, "person_ids": person_ids}
        return super().fit(X, y, **given, **weights)  # type: ignore[misc]


class DPSGDOfLabels(OfLabels, DPSGDRegressor):
    """DP-SGD for numbers, fitted to labels."""


class AdditiveOfLabels(OfLabels, DPAdditiveRegressor):
    """The additive model for numbers, fitted to labels."""


class QuietFairNumbers(OfLabels, FairPathRegressor):
    """A fair regressor, fitted to labels, that does not say that few rows keep to no tolerance."""

    def fit(self, X, y, *, sensitive_features=None, person_ids=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)
            return super().fit(X, y, sensitive_features=sensitive_features, person_ids=person_ids)


class OfTwoCosts:
    """States its costs for the two classes of a fit, whatever their labels are."""

    def fit(self, X: Any, y: Any, **given: Any) -> Any:
        stated: Any = self.costs  # type: ignore[has-type]
        column = np.asarray(y)
        labels = np.unique(column).tolist() if column.ndim == 1 else []
        two = len(labels) == 2
        try:
            self.costs = dict(zip(labels, stated.values(), strict=True)) if two else None
            super().fit(X, y, **given)  # type: ignore[misc]
        finally:
            self.costs = stated
        self._bind()  # type: ignore[attr-defined]  # what was stated meanwhile is not a change
        return self


class DPSGDOfTwoCosts(OfTwoCosts, DPSGDClassifier):
    """DP-SGD with a threshold for costs."""


def with_costs_of_any_labels(estimator: Any) -> Any:
    """The same estimator; of a class that states costs of the labels of a fit, if it has some."""
    if getattr(estimator, "costs", None) is None:
        return estimator
    kind = {DPSGDClassifier: DPSGDOfTwoCosts}[type(estimator)]
    return kind(**estimator.get_params(deep=False))


class MadeUp:
    """Makes up groups where scikit-learn's checks pass none."""

    def fit(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Any:
        if sensitive_features is None:
            shape = X.shape if issparse(X) else np.asarray(X).shape
            sensitive_features = np.arange(shape[0] if shape else 2) % 2
        return super().fit(X, y, sensitive_features=sensitive_features)  # type: ignore[misc]


def with_groups_made_up(estimator: Any) -> Any:
    """The same estimator; of a class that makes up groups, if it needs some and gets none."""
    if getattr(estimator, "_needs_groups", None) is None and type(estimator) not in _UNTAGGED:
        return estimator
    kind = globals().get(f"MadeUp{type(estimator).__name__}", type(estimator))
    return kind(**estimator.get_params(deep=False))


# Names of this module, so that they can be pickled.
_QUIET = (QuietFairPath, QuietFairPathOfThree, QuietFairNumbers)
_UNTAGGED = (ReweighedClassifier,)
for _kind in (*(getattr(skfairdp, name) for name in skfairdp.__all__), *_QUIET, *_UNTAGGED):
    if getattr(_kind, "_needs_groups", None) is not None or _kind in _UNTAGGED:
        _name = f"MadeUp{_kind.__name__}"
        globals()[_name] = type(_name, (MadeUp, _kind), {"__module__": __name__})
