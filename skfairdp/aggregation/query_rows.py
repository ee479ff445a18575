"""Private rows, public rows, and the public facts about the queries between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skfairdp.aggregation.voting import Transcript
from skfairdp.fairness.bounds.gated_answers import answered_of_asked
from skfairdp.foundation.assumptions import ONE_TEACHER, VOTES_PLANNED
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.records.groups import Groups, encode_groups
from skfairdp.records.persons import Persons
from skfairdp.records.rows import check_features, refuse_other_order


@dataclass(frozen=True, eq=False)
class PrivateRows:
    """Private rows, dropped after the fit."""

    X: np.ndarray  # (n, n_features): features
    labels: np.ndarray  # (n,): class codes; -1 for a label that was not declared
    classes: np.ndarray  # (n_classes,): class labels
    groups: Groups | None
    persons: Persons | None = None  # Whose rows they are, where a person may have several
    unit: str = "record"  # or "person"


@dataclass(frozen=True, eq=False)
class Queries:
    """Public rows, in the order of the queries to the teachers."""

    X: np.ndarray  # (n_queries, n_features): features
    groups: Groups | None
    # (n_queries,): class codes, where public labels belong to the rows
    labels: np.ndarray | None = None
    own: bool = False  # Whether they are the training rows themselves

    def picked(self, order: np.ndarray) -> Queries:
        groups = self.groups
        return Queries(
            self.X[order],
            None if groups is None else Groups(groups.labels, groups.codes[order]),
            None if self.labels is None else self.labels[order],
            self.own,
        )


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
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skfairdp import PATEClassifier, PublicRows
    >>> X, y = make_classification(1200, random_state=0)
    >>> model = PATEClassifier(epsilon=4.0, progress=False)
    >>> search = GridSearchCV(model, {"n_answers": [30, 60]}, cv=2)
    >>> search = search.fit(X[:600], y[:600], X_public=PublicRows(X[600:]))
    >>> search.best_estimator_.n_asked_ in (30, 60)
    True
    """

    X: Any
    sensitive_features: Any = None


def public_rows(X: Any, sensitive_features: Any, name: str) -> PublicRows:
    """Take public rows however they were given."""
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
    """Check public rows; messages may show their values."""
    shape = np.shape(public.X)
    if len(shape) == 2 and shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"'X_public' has {shape[1]} columns, but X has {estimator.n_features_in_}: public rows "
            "go through the same preprocessing (in a Pipeline: transform_input=['X_public'] "
            "with metadata routing on)."
        )
    X = check_features(estimator, public.X)
    groups = public.sensitive_features
    refuse_other_order(X_public=public.X, sensitive_features_public=groups)
    if groups is None:
        return Queries(X, None)
    return Queries(X, encode_groups(groups, n_rows=len(X), name="sensitive_features_public"))


# A teacher; private rows as it takes them, (n, ...), and the codes that it learns, (n,), where -1
# leaves a row out; and public rows as it takes them, (n_queries, ...).
Lesson = tuple[Any, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class VotingRun:
    """State of a running fit, for its hooks; dropped afterwards."""

    rows: PrivateRows
    queries: Queries
    seed: int
    noise: NoiseSource


def description(transcript: Transcript, groups: Groups | None, n_options: int) -> dict[str, Any]:
    """Fitted attributes that describe the releases about the queries; no query is kept."""
    labels = asked = answers = shares = None
    if groups is not None:
        labels, codes = groups.labels, groups.codes[: transcript.n_asked]
        passed = transcript.answered
        answers = np.zeros((len(labels), n_options), dtype=np.int64)
        np.add.at(answers, (codes[passed], transcript.outcomes[passed]), 1)
        asked = np.bincount(codes, minlength=len(labels))
        each = zip(
            labels, (answers.sum(axis=1) / np.maximum(asked, 1)).tolist(), asked, strict=True
        )
        shares = {label: share if of else math.nan for label, share, of in each}
    return {
        "n_asked_": transcript.n_asked,
        "n_charged_": transcript.n_charged,
        "n_answered_": int(transcript.answered.sum()),
        "coverage_": transcript.coverage,
        "public_groups_": labels,
        "asked_by_group_": asked,
        "answers_by_group_": answers,
        "coverage_by_group_": shares,
    }


def spent(estimator: Any, plan: Plan) -> tuple[str, ...]:
    """Describe the releases that epsilon pays for, and the outcome of the queries."""
    *tests, votes = plan.segments
    counted = "".join(f"{segment.steps} noisy threshold tests and " for segment in tests)
    answered = f"{estimator.n_answered_} of {estimator.n_asked_} queries were answered"
    if estimator.public_groups_ is not None:
        answers = estimator.answers_by_group_.sum(axis=1)
        answered = answered_of_asked(estimator.public_groups_, answers, estimator.asked_by_group_)
    said = VOTES_PLANNED.format(tests=counted, votes=votes.steps)
    return said, ONE_TEACHER, f"coverage: {answered}"
