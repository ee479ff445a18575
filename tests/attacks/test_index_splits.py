"""Tests that splits by position give no finite guarantee for added or removed records."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    train_test_split,
)

from skfairdp import DPSGDClassifier, certify
from skfairdp.certificate import search_fits
from skfairdp.model_selection import RecordSplit, search_cost

FAILURE = 1e-6
N = 240
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
GROUPS = np.where(X[:, 1] > 0, "a", "b")


def declared(**settings) -> DPSGDClassifier:
    return DPSGDClassifier(
        max_epochs=1, progress=False, delta=1e-4, dataset_size=200, classes=[0, 1], **settings
    )


def moved(split, rows, removed: int) -> int:
    """Records that change sides when one is removed."""
    position = np.delete(np.arange(len(rows)), removed)
    train = set(split(rows))
    without = {int(position[i]) for i in split(rows[position])}
    return len((train ^ without) - {removed})


def test_a_cut_by_position_moves_others_and_a_cut_by_record_moves_nobody() -> None:
    by_index = lambda rows: train_test_split(np.arange(len(rows)), random_state=0)[0]  # noqa: E731
    by_record = lambda rows: next(RecordSplit(1, test_size=0.25).split(rows))[0]  # noqa: E731
    by_fold = lambda rows: next(RecordSplit(4).split(rows))[0]  # noqa: E731
    assert moved(by_index, X, 7) > 20
    for removed in range(0, N, 40):
        assert moved(by_record, X, removed) == 0
        assert moved(by_fold, X, removed) == 0


def test_one_record_that_changes_the_type_of_a_column_moves_nobody() -> None:
    """A type belongs to a column, so to all records at once; who is held out must not."""
    numbers = pd.DataFrame({"a": np.arange(N), "b": X[:, 0]})
    for odd in ("text", None, 0.5, np.nan):
        mixed = numbers.astype({"a": object})
        mixed.loc[7, "a"] = odd
        for table in (mixed, mixed.to_numpy(), mixed.to_numpy().tolist()):
            one = next(RecordSplit(1, test_size=0.3).split(numbers))[0]
            other = next(RecordSplit(1, test_size=0.3).split(table))[0]
            assert set(one) ^ set(other) <= {7}


def test_parts_have_the_chances_that_were_asked_for() -> None:
    rows = RNG.normal(size=(20_000, 2))
    sizes = [len(test) for _, test in RecordSplit(5, key=3).split(rows)]
    assert sum(sizes) == len(rows)
    assert stats.chisquare(sizes).pvalue > FAILURE
    hold_outs = [set(test) for _, test in RecordSplit(3, test_size=0.2).split(rows)]
    for held in hold_outs:
        assert stats.binomtest(len(held), len(rows), 0.2).pvalue > FAILURE
    both = len(hold_outs[0] & hold_outs[1])  # drawn anew
    assert stats.binomtest(both, len(rows), 0.04).pvalue > FAILURE


def test_ids_stand_for_records_and_repeat_in_one_part() -> None:
    people = np.repeat([f"person {i}" for i in range(N // 2)], 2)
    for train, test in RecordSplit(3).split(X, groups=people):
        assert not set(people[train]) & set(people[test])


@pytest.mark.parametrize(
    ("settings", "rows", "message"),
    [
        ({"n_splits": 1}, X, "n_splits"),
        ({"test_size": 1.0}, X, "test_size"),
        ({"key": -1}, X, "key"),
        ({}, X[:1], "empty part"),
        ({}, [[pd.Timestamp(0)]] * 9, "Timestamp"),
    ],
)
def test_bad_input_is_named(settings, rows, message) -> None:
    with pytest.raises(ValueError, match=message):
        next(RecordSplit(**settings).split(rows))
    with pytest.raises(ValueError, match="groups has"):
        next(RecordSplit().split(X, groups=[1]))


@pytest.mark.parametrize("holdout", [None, "by_index"])
def test_counts_of_a_hold_out_cut_by_position_are_no_add_remove_claim(holdout) -> None:
    rows, held, y, _, _, groups = train_test_split(X, Y, GROUPS, test_size=0.25, random_state=0)
    model = declared().fit(rows, y)
    assert model.privacy_.adjacency == "add-remove"
    privacy = certify(
        model, held, sensitive_features=groups, count_epsilon=0.5, groups=["a", "b"],
        holdout=holdout,
    ).privacy  # fmt: skip
    assert not privacy.satisfies(1e9, adjacency="add-remove")
    assert privacy.adjacency == "zero-out"
    assert any("by position" in text for text in privacy.assumptions)


def test_counts_of_a_hold_out_cut_by_record_keep_the_claim() -> None:
    train, held = next(RecordSplit(1, test_size=0.25).split(X))
    model = declared().fit(X[train], Y[train])
    privacy = certify(
        model, X[held], sensitive_features=GROUPS[held], count_epsilon=0.5, groups=["a", "b"],
        holdout="per_record",
    ).privacy  # fmt: skip
    assert privacy.adjacency == "add-remove"
    assert privacy.epsilon == model.privacy_.epsilon


@pytest.mark.parametrize(
    ("cv", "adjacency"),
    [
        (None, "zero-out"),
        (3, "zero-out"),
        (KFold(3, shuffle=True, random_state=0), "zero-out"),
        (ShuffleSplit(2, test_size=0.5), "zero-out"),
        (RecordSplit(3), "add-remove"),
        (RecordSplit(2, test_size=0.3), "add-remove"),
        (PredefinedSplit(np.where(np.arange(N) < 60, 0, -1)), "add-remove"),
        (PredefinedSplit(np.arange(N) % 3), "zero-out"),
    ],
    ids=str,
)
def test_fits_of_a_search_are_of_the_relation_that_its_folds_allow(cv, adjacency) -> None:
    search = GridSearchCV(declared(), {"max_grad_norm": [0.5, 1.0]}, cv=cv).fit(X, Y)
    cost = search_cost(search)
    assert math.isinf(cost.privacy.epsilon)
    assert cost.fits.adjacency == adjacency
    assert adjacency in cost.sentence
    assert adjacency in certify(search).privacy.assumptions[0]
    by_position = any("cut by position" in text for text in cost.fits.assumptions)
    assert by_position is (adjacency == "zero-out")
    splits = search.n_splits_
    folds = splits if isinstance(cv, ShuffleSplit | PredefinedSplit) else splits - 1
    if isinstance(cv, RecordSplit):
        folds = splits - 1 if cv.test_size is None else splits
    assert cost.n_fits == 2 * folds + 1


def test_declared_sizes_that_are_taken_from_rows_are_not_read_off_a_cut_by_record() -> None:
    """Sizes of random parts are not known from the splitter."""
    model = DPSGDClassifier(max_epochs=1, progress=False, delta=1e-4)
    search = GridSearchCV(model, {"max_grad_norm": [0.5]}, cv=RecordSplit(3)).fit(X, Y)
    assert search_cost(search).fits is None


def test_a_claim_that_forgot_the_cut_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: all splits taken for ones in which removing a record moves nobody."""
    monkeypatch.setattr(search_fits, "_moves_nobody", lambda search: True)
    search = GridSearchCV(declared(), {"max_grad_norm": [0.5]}, cv=3).fit(X, Y)
    assert search_cost(search).fits.adjacency == "add-remove"
