"""Each record, or person, goes to training or hold-out by its own draw; noisy tables of scores."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from skfairdp.certificate.counted_claims import noisy_cells
from skfairdp.certificate.holdout import GroupedRows, ask_holdout
from skfairdp.fairness.bounds.noisy_counts import noisy_gap_estimate
from skfairdp.fairness.notions import Notion
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts.unwrap import unwrap
from skfairdp.records.groups import Groups, encode_groups, groups_of_records
from skfairdp.records.labels import count_rows, label_column, take_rows
from skfairdp.records.persons import encode_persons
from skfairdp.records.rows import refuse_other_order
from skfairdp.records.stored_rows import refuse_malformed

BINS = 20  # of the predicted probability, for the area under the curve


@dataclass(frozen=True, eq=False)
class Divided:
    """Training and held-out rows of a search, with the groups of all; dropped after it."""

    training: GroupedRows
    held_out: GroupedRows
    groups: tuple | None
    person_ids: Any = None  # of the training rows, where a person may have several


def divide(
    X: Any,
    y: Any,
    sensitive_features: Any,
    holdout_fraction: float,
    source: NoiseSource,
    person_ids: Any = None,
) -> Divided:
    """Assign every record to training or hold-out, by itself and in secret.

    A split of a fixed size would move other records when one is removed, and then nothing
    could be said of one record alone. A person is in one part with all rows, and of each held-out
    person one row is kept, drawn by chance.
    """
    refuse_malformed(X)
    refuse_other_order(X=X, y=y, sensitive_features=sensitive_features, person_ids=person_ids)
    n_rows = count_rows(X)
    label_column(y, n_rows, declared=True)
    groups = Groups(("all",), np.zeros(n_rows, dtype=np.int64))
    if sensitive_features is not None:
        groups = encode_groups(sensitive_features, n_rows=n_rows)
    persons = None if person_ids is None else encode_persons(person_ids, n_rows)
    groups_of_records(groups, persons)  # refuses a person in two groups
    n_records = n_rows if persons is None else persons.count
    in_training = source.sampling.random(n_records) >= holdout_fraction
    if in_training.sum() < 2:
        # Data do not change this chance, and the number of rows that were drawn is not named.
        raise ValueError(
            f"holdout_fraction={holdout_fraction!r} left too few rows to train on, by the chance "
            "of its draw. Give more rows, or a smaller holdout_fraction."
        )
    rows = GroupedRows(X, y, sensitive_features, groups)
    chosen, counted = np.flatnonzero(in_training), np.flatnonzero(~in_training)
    if persons is not None:
        drawn = persons.one_row_each(source.sampling.integers)
        chosen, counted = np.flatnonzero(in_training[persons.codes]), np.sort(drawn[counted])
    return Divided(
        rows.part(chosen),
        rows.part(counted),
        None if sensitive_features is None else groups.labels,
        None if person_ids is None else take_rows(person_ids, chosen),
    )


@dataclass(frozen=True, order=True)
class Score:
    """Score of a candidate; larger is better, compared from the left."""

    # Zero within the tolerance, else minus the excess of the noisy gap over it: among candidates
    # that break the tolerance the one that breaks it least is best
    shortfall: float
    value: float  # Noisy accuracy, or area under the curve


def noisy_table(
    model: Any, held: GroupedRows, epsilon: float, source: NoiseSource, *, with_scores: bool
) -> NDArray[np.int64]:
    """Count held-out rows by group, label, prediction (and bin of the score), and add noise.

    `epsilon`: cost of the table, in nats; infinity adds no noise. Result (n_groups, n_labels,
    n_classes, n_bins): a row is in at most one cell, so the L1 sensitivity is 1.
    """
    n_bins = BINS if with_scores else 1
    groups = held.groups
    if with_scores:
        probability = np.asarray(model.predict_proba(deepcopy(held.X)))[:, -1]
        bins = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
        labels = tuple((label, b) for label in groups.labels for b in range(BINS))
        codes = np.where(groups.codes >= 0, groups.codes * BINS + bins, -1)
        groups = Groups(labels, codes)
    asked = ask_holdout(unwrap(model), replace(held, groups=groups), private=True)
    flat = asked.table[:, :-1]  # of rows with a label
    table = np.moveaxis(flat.reshape(-1, n_bins, *flat.shape[1:]), 1, -1)
    if math.isinf(epsilon):
        return table
    return table + source.discrete_laplace(epsilon, table.shape)


def score_of(
    table: NDArray[np.int64], objective: str, notion: Notion, classes: Any, tolerance: float | None
) -> tuple[Score, float | None]:
    """Score of a candidate and its noisy gap, from the noisy table alone.

    `tolerance`: largest gap; None sets no limit. No gap without two groups with rows.
    """
    counts = np.maximum(table, 0)
    by_label = counts.sum(axis=0)
    if objective == "accuracy":
        value = float(np.einsum("yyb->", by_label)) / max(float(by_label.sum()), 1.0)
    else:
        value = _area(by_label.sum(axis=1))
    gap = None
    if table.shape[0] > 1:
        gap = noisy_gap_estimate(noisy_cells(notion.strata(classes), table.sum(axis=-1)))
    return score_within(tolerance, value, gap), gap


def score_within(tolerance: float | None, value: float, gap: float | None) -> Score:
    """Score of a candidate with a gap, where `tolerance` is the largest one, or None."""
    if tolerance is None:
        return Score(0.0, value)
    # No two groups with rows: nothing speaks for the candidate.
    excess = (1.0 if gap is None else gap) - tolerance
    return Score(-max(excess, 0.0), value)


def _area(counts: NDArray[np.int64]) -> float:
    """Area under the ROC curve from counts (label, score bin); ties within a bin count half."""
    counts = counts[[0, -1]]
    if not counts.any(axis=1).all():
        return 0.5
    label, place = np.indices(counts.shape)
    return float(roc_auc_score(label.ravel(), place.ravel(), sample_weight=counts.ravel()))
