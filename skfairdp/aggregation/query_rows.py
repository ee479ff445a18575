"""Private rows, public rows, and what may be told of the queries between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skfairdp.aggregation.voting import Transcript
from skfairdp.fairness.groups import Groups
from skfairdp.privacy.noise import NoiseSource

__all__ = ["Lesson", "Queries", "Rows", "Run", "description"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Private rows, dropped after the fit.

    Parameters
    ----------
    X : ndarray, shape (n, n_features)
        Features.
    labels : ndarray of int64, shape (n,)
        Class codes; -1 for a label that was not declared.
    classes : ndarray, shape (n_classes,)
        Class labels.
    groups : Groups or None
        Groups, where they were given.
    """

    X: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    groups: Groups | None


@dataclass(frozen=True, eq=False)
class Queries:
    """Public rows in the order in which they are put to the teachers.

    Parameters
    ----------
    X : ndarray, shape (n_queries, n_features)
        Features.
    groups : Groups or None
        Groups, where they were given.
    labels : ndarray of int64, shape (n_queries,), or None
        Class codes, where public labels belong to the rows.
    own : bool, default=False
        Whether they are the training rows themselves.
    """

    X: np.ndarray
    groups: Groups | None
    labels: np.ndarray | None = None
    own: bool = False

    def picked(self, order: np.ndarray) -> Queries:
        """Rows at some positions, in their order."""
        groups = self.groups
        return Queries(
            self.X[order],
            None if groups is None else Groups(groups.labels, groups.codes[order]),
            None if self.labels is None else self.labels[order],
            self.own,
        )


@dataclass(frozen=True, eq=False)
class Lesson:
    """What teachers learn, and what they are asked.

    Parameters
    ----------
    teacher : object
        Pattern of all teachers.
    X : ndarray, shape (n, ...)
        Private rows as it takes them.
    targets : ndarray of int64, shape (n,)
        Class codes; -1 leaves a row out.
    X_queries : ndarray, shape (n_queries, ...)
        Public rows as it takes them.
    """

    teacher: Any
    X: np.ndarray
    targets: np.ndarray
    X_queries: np.ndarray


@dataclass(frozen=True, eq=False)
class Run:
    """What a hook needs while the fit runs; dropped afterwards.

    Parameters
    ----------
    rows : Rows
        Private rows.
    queries : Queries
        Public rows.
    seed : int
        Seeds what protects nobody.
    noise : NoiseSource
        Noise and shards.
    """

    rows: Rows
    queries: Queries
    seed: int
    noise: NoiseSource


def description(transcript: Transcript, groups: Groups | None, n_options: int) -> dict[str, Any]:
    """Fitted attributes that say what was released about the queries; no query is kept.

    Parameters
    ----------
    transcript : Transcript
        What was released.
    groups : Groups or None
        Public groups of the queries.
    n_options : int
        Number of answers there are.

    Returns
    -------
    dict
        Attribute to value.
    """
    found: dict[str, Any] = {
        "n_asked_": transcript.n_asked,
        "n_charged_": transcript.n_charged,
        "n_answered_": int(transcript.answered.sum()),
        "coverage_": transcript.coverage,
        "public_groups_": None,
        "asked_by_group_": None,
        "answers_by_group_": None,
        "coverage_by_group_": None,
    }
    if groups is None:
        return found
    n_groups = len(groups.labels)
    codes = groups.codes[: transcript.n_asked]
    table = np.zeros((n_groups, n_options), dtype=np.int64)
    passed = transcript.answered
    np.add.at(table, (codes[passed], transcript.outcomes[passed]), 1)
    asked = np.bincount(codes, minlength=n_groups)
    shares = table.sum(axis=1) / np.maximum(asked, 1)
    return found | {
        "public_groups_": groups.labels,
        "asked_by_group_": asked,
        "answers_by_group_": table,
        "coverage_by_group_": {
            label: float(share) if of else math.nan
            for label, share, of in zip(groups.labels, shares, asked, strict=True)
        },
    }
