"""Public rows that scikit-learn's searches hand over whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skfairdp.aggregation.query_rows import Queries
from skfairdp.fairness.groups import encode_groups
from skfairdp.rows import check_features


@dataclass(frozen=True, eq=False)
class PublicRows:
    """Public rows with their groups, as one object without a length.

    A search of scikit-learn cuts every argument of `fit` that is as long as X into its
    folds, public rows too if there happen to be as many. What has no length is
    handed over whole.

    Parameters
    ----------
    X : array-like, shape (n_public, n_features)
        Rows that need no protection, with the columns of the private ones.
    sensitive_features : array-like, Series or DataFrame, shape (n_public,) or \
(n_public, k), optional
        Their groups.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skfairdp import PATEClassifier, PublicRows
    >>> rng = np.random.default_rng(0)
    >>> X, X_public = rng.normal(size=(2, 600, 2))
    >>> y = X[:, 0] > 0
    >>> model = PATEClassifier(epsilon=4.0, progress=False)
    >>> search = GridSearchCV(model, {"n_answers": [30, 60]}, cv=2)
    >>> search.fit(X, y, X_public=PublicRows(X_public)).best_estimator_.n_asked_ in (30, 60)
    True
    """

    X: Any
    sensitive_features: Any = None


def public_rows(X: Any, sensitive_features: Any, name: str) -> PublicRows:
    """Take public rows however they were given.

    `X`: the argument ``X_public``. `sensitive_features`: the argument
    ``sensitive_features_public``.
    """
    if X is None:
        raise ValueError(
            f"{name} needs public rows: give X_public, rows without labels that need no "
            "protection. In a Pipeline set transform_input=['X_public'] with metadata routing on; "
            "in a search wrap them as PublicRows(X_public, groups)."
        )
    if not isinstance(X, PublicRows):
        return PublicRows(X, sensitive_features)
    if sensitive_features is None:
        return X
    if X.sensitive_features is not None:
        raise ValueError(
            "Groups of the public rows came twice: in PublicRows and as "
            "sensitive_features_public. Leave one of them out."
        )
    return PublicRows(X.X, sensitive_features)


def queries_of(estimator: Any, public: PublicRows) -> Queries:
    """Check public rows; the messages may show what they hold."""
    shape = np.shape(public.X)
    if len(shape) == 2 and shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"'X_public' has {shape[1]} columns, but X has {estimator.n_features_in_}: public rows "
            "go through the same preprocessing (in a Pipeline: transform_input=['X_public'] "
            "with metadata routing on)."
        )
    X = check_features(estimator, public.X)
    if public.sensitive_features is None:
        return Queries(X, None)
    groups = encode_groups(
        public.sensitive_features, n_rows=len(X), name="sensitive_features_public"
    )
    return Queries(X, groups)
