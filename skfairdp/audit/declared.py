"""Declared sizes, canaries included, so that fits with and without a canary have one plan."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from skfairdp.audit.canaries import Canaries, stack_rows
from skfairdp.privacy.accounting.exposure import recomputed_epsilons
from skfairdp.records.groups import encode_groups

# At these the cost of what is released is a claim as well, and one that pairs test sooner.
LARGE_DELTAS = (0.01, 0.03, 0.1, 0.3)


def declare_sizes(
    estimator: Any, X: ArrayLike, y: ArrayLike, canaries: Canaries, sensitive_features: Any
) -> Any:
    """Clone an estimator and declare the sizes and classes of rows and canaries together.

    Were they taken from the rows, worlds with and without a canary would have different
    sampling rates and noise, and the claim would be one for another relation.
    """
    if (sensitive_features is None) != (canaries.sensitive_features is None):
        raise ValueError(
            "sensitive_features is given for the rows or for the canaries alone: give it for both, "
            "or for neither."
        )
    parameters, size = estimator.get_params(deep=False), len(np.asarray(y)) + len(canaries)
    declared: dict[str, Any] = {"dataset_size": size} if "dataset_size" in parameters else {}
    if "group_sizes" in parameters and sensitive_features is not None:
        together = stack_rows(sensitive_features, canaries.sensitive_features)
        groups = encode_groups(together, n_rows=size)
        declared["group_sizes"] = dict(zip(groups.labels, groups.counts.tolist(), strict=True))
    if not declared:
        raise ValueError(
            f"{type(estimator).__name__} takes neither dataset_size nor group_sizes (with "
            "sensitive_features), so worlds with and without a canary would have different plans; "
            "it cannot be audited by adding records."
        )
    if "classes" in parameters and parameters["classes"] is None:
        declared["classes"] = np.union1d(np.asarray(y), np.asarray(canaries.y)).tolist()
    return clone(estimator).set_params(**declared)


def fit_with(
    model: Any, X: ArrayLike, y: ArrayLike, guests: Canaries, sensitive_features: ArrayLike | None
) -> Any:
    """Fit on the rows and the canaries that take part."""
    rows, labels = stack_rows(X, guests.X), stack_rows(np.asarray(y), guests.y)
    if sensitive_features is None:
        return model.fit(rows, labels)
    groups = stack_rows(sensitive_features, guests.sensitive_features)
    return model.fit(rows, labels, sensitive_features=groups)


def claim_about(fitted: Any, canaries: Canaries) -> tuple[float, float]:
    """Return epsilon and delta for the canaries; their group's epsilon if they share one group."""
    privacy = fitted.privacy_
    if privacy is None or math.isinf(privacy.epsilon):
        return math.inf, float(getattr(fitted, "delta", 0.0))
    if privacy.adjacency != "add-remove":
        raise ValueError(
            f"the guarantee is for {privacy.adjacency!r} neighbours, but an audit adds and leaves "
            "out records; audit an estimator whose sizes are declared."
        )
    own = (privacy.per_group or {}).get(_only_group(canaries), privacy.epsilon)
    return float(own), float(privacy.delta)


def profile_of(fitted: Any, canaries: Canaries) -> list[tuple[float, float]]:
    """Privacy profile, at large deltas, of the events that a fitted estimator states."""
    privacy = fitted.privacy_
    if privacy is None or privacy.is_void or not (privacy.exposures or privacy.event):
        return []
    group, found = _only_group(canaries), []
    for delta in LARGE_DELTAS:
        costs = recomputed_epsilons(replace(privacy, delta=delta))
        found.append((costs.get(group, costs[None]), delta))
    return found


def _only_group(canaries: Canaries) -> Hashable | None:
    if canaries.sensitive_features is None:
        return None
    labels = encode_groups(canaries.sensitive_features, n_rows=len(canaries)).labels
    return labels[0] if len(labels) == 1 else None
