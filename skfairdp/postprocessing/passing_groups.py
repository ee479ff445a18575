"""What an inner estimator is told about groups, and what it knows of them."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline

from skfairdp.certificate.unwrap import unwrap
from skfairdp.fairness.groups import encode_groups, groups_of_training


def accepts_groups(estimator: Any, method: str) -> bool:
    """Whether a method of an estimator names `sensitive_features` among its arguments."""
    return "sensitive_features" in inspect.signature(getattr(estimator, method)).parameters


def fit_parameters(estimator: Any, sensitive_features: Any) -> dict[str, Any]:
    """Groups as keyword arguments of fit, where metadata routing is off; empty for no way in."""
    if isinstance(estimator, BaseSearchCV):
        return fit_parameters(estimator.estimator, sensitive_features)
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = fit_parameters(last, sensitive_features)
        return {f"{name}__{key}": value for key, value in inner.items()}
    return {"sensitive_features": sensitive_features} if accepts_groups(estimator, "fit") else {}


def known_groups(
    inner: Any, declared: Sequence[Hashable] | None, sensitive_features: Any, n_rows: int
) -> tuple[Hashable, ...] | None:
    """Groups that may query, declared ones before all others; None where nothing is known."""
    if declared is not None:
        none = np.full(n_rows, None, dtype=object)
        return encode_groups(none, n_rows=n_rows, labels=declared, on_missing="drop").labels
    final = unwrap(inner).final
    known = getattr(final, "groups_", None)
    if sensitive_features is None:
        return known
    if any(getattr(final, name, None) is not None for name in ("group_sizes", "groups")):
        return known  # declared inside; others that occur are private
    seen = groups_of_training(sensitive_features, n_rows, on_missing="drop").labels
    if not seen:
        raise ValueError(
            "sensitive_features has no value in any row, so no group is known. Give the group of "
            "some rows, or declare groups=."
        )
    # An estimator may know declared groups that these rows lack, or be about others.
    return known if known is not None and set(seen) <= set(known) else seen
