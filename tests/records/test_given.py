"""Rows as given to a fit, and what is remembered of them to refuse them as held-out rows."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import coo_array, csr_matrix
from sklearn.base import BaseEstimator

from skfairdp import FunctionalMechanismClassifier, PrivacyLedger
from skfairdp.records import Given, given
from skfairdp.records.given import remember_rows, trained_on


def test_rows_with_ids_are_of_persons_and_are_encoded_with_their_largest_number() -> None:
    alone = Given(np.zeros((4, 1)))
    assert (alone.unit, alone.persons(4)) == ("record", None)
    given = Given(np.zeros((4, 1)), person_ids=["a", "b", "a", "a"])
    persons = given.persons(4, most=2)
    assert given.unit == "person"
    assert persons is not None
    assert (persons.count, persons.most) == (2, 2)


def test_ids_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="person_ids"):
        Given(np.zeros((4, 1)), person_ids=[1, 2, 3]).persons(4)


def test_columns_in_another_order_are_refused_when_rows_are_read() -> None:
    X = pd.DataFrame({"x": [1.0, 2.0]}, index=[10, 11])
    y = pd.Series([0, 1], index=[11, 10])
    with pytest.raises(ValueError, match="index"):
        Given(X, y).read()
    same = Given(X, pd.Series([0, 1], index=[10, 11])).read()
    assert same.y.tolist() == [0, 1]


TABLE = np.arange(60.0).reshape(20, 3)
CONTAINERS = {
    "array": np.asarray,
    "lists": np.ndarray.tolist,
    "deque": lambda rows: deque(rows.tolist()),
    "DataFrame": pd.DataFrame,
    "COO": coo_array,
    "CSR": csr_matrix,
    "Arrow": lambda rows: pa.table({name: rows[:, j] for j, name in enumerate("abc")}),
    "memoryview": memoryview,
}


@pytest.mark.parametrize("holds", CONTAINERS.values(), ids=CONTAINERS)
def test_rows_are_known_again_from_any_container_and_others_are_not(holds) -> None:
    model = BaseEstimator()
    remember_rows(model, holds(TABLE))
    assert trained_on(model, holds(TABLE), lambda rows: rows)
    assert not trained_on(model, holds(TABLE + 1.0), lambda rows: rows)
    assert not trained_on(BaseEstimator(), holds(TABLE), lambda rows: rows)


@pytest.mark.parametrize("cell", ["text", np.nan, 10**400])
def test_tables_that_hold_more_than_numbers_are_known_again(cell: object) -> None:
    rows = pd.DataFrame(TABLE).astype(object)
    rows.iloc[0, 0] = cell  # NaN in a table of numbers, or what makes texts of all its cells
    for held in (rows, rows.to_numpy(), rows.to_numpy().tolist()):
        model = of_a_fit(rows)
        assert trained_on(model, held, None)
        assert not trained_on(model, rows.assign(**{"0": 1.0}), None)
    assert not trained_on(model, pd.DataFrame(TABLE + 1.0), None)


def of_a_fit(rows: np.ndarray) -> BaseEstimator:
    model = BaseEstimator()
    remember_rows(model, rows)
    return model


@pytest.mark.parametrize("kind", ["numbers", "images", "float32", "DataFrame", "lists"])
def test_training_rows_are_known_among_others_and_in_another_order(kind: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(900, 3, 2) if kind == "images" else (900, 6))
    rows = rows.astype(np.float32) if kind == "float32" else rows
    holds = {"DataFrame": pd.DataFrame, "lists": np.ndarray.tolist}.get(kind, np.asarray)
    model = of_a_fit(rows[:400])
    assert trained_on(model, holds(rows), None)
    assert trained_on(model, holds(rng.permutation(rows)), None)
    assert trained_on(model, holds(rows[:400][::-1]), None)
    assert not trained_on(model, holds(rows[400:]), None)
    # A few that got among others are no reason to refuse these.
    assert not trained_on(model, holds(rows[395:]), None)
    for few in (holds(rows[:1]), holds(rows[:7])):
        assert not trained_on(model, few, None)


def test_people_with_equal_rows_are_not_taken_for_those_of_the_fit() -> None:
    """In a table of few columns nearly every training row has a twin among other people."""
    rng = np.random.default_rng(1)
    rows, others = rng.integers(0, 4, size=(2, 3000, 3)).astype(float)
    assert not trained_on(of_a_fit(rows), others, None)
    # 1 in 100 of the others has a twin; each of 16 rows, so about 1 in 40.
    rows, others = rng.integers(0, 10, size=(2, 20_000, 6)).astype(float)
    assert len(np.unique(others, axis=0)) > 0.98 * len(others)
    assert not trained_on(of_a_fit(rows), others, None)


def test_keys_of_rows_tell_signs_and_orders_apart_and_not_types() -> None:
    corners = np.array(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 8)).reshape(8, -1).T
    keys = given._row_keys(corners)
    assert len(np.unique(keys)) == len(corners)
    np.testing.assert_array_equal(keys, given._row_keys(corners.astype(np.int8)))
    np.testing.assert_array_equal(keys, given._row_keys(-0.0 - (-corners)))
    assert given._row_keys([["a"], ["b"]]).size == 0
    assert given._row_keys(csr_matrix(corners)).size == 0


def test_rows_of_which_no_digest_can_be_made_are_refused_before_a_charge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(rows: object) -> bytes:
        raise TypeError("no cell of this type can be read")

    monkeypatch.setattr(given, "_row_keys", fails)
    ledger = PrivacyLedger(tmp_path / "spent.db")
    model = FunctionalMechanismClassifier((0.0, 60.0), ledger=ledger)
    with pytest.raises(TypeError, match="no cell"):
        model.fit(TABLE, np.arange(20) % 2)
    assert ledger.entries() == ()
    assert not hasattr(model, "receipt_")
