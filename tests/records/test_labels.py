"""Tests of labels and of rows at given positions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import coo_array, csc_array

from skfairdp.records import labels
from skfairdp.records.labels import take_rows
from skfairdp.records.one_column import objects

TABLE = np.arange(12).reshape(4, 3)


@pytest.mark.parametrize(
    "rows",
    [
        TABLE,
        TABLE.tolist(),
        tuple(map(tuple, TABLE.tolist())),
        pd.DataFrame(TABLE, index=[3, 2, 1, 0]),
        csc_array(TABLE),
        coo_array(TABLE),
        pa.table({name: TABLE[:, column] for column, name in enumerate("abc")}),
        memoryview(TABLE),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_are_taken_by_position_from_any_container(rows):
    taken = take_rows(rows, np.array([2, 0]))
    found = taken.toarray() if hasattr(taken, "toarray") else np.asarray(taken)
    assert np.array_equal(found, TABLE[[2, 0]])
    assert isinstance(taken, np.ndarray | list | pd.DataFrame | pa.Table) or hasattr(taken, "tocsr")


def test_a_series_is_read_by_position_and_not_by_label():
    labels = pd.Series(["a", "b", "c"], index=[2, 1, 0])
    assert list(take_rows(labels, np.array([0]))) == ["a"]


@pytest.mark.parametrize("cuts", [True, False])
def test_texts_that_differ_behind_a_nul_are_different_values(monkeypatch, cuts):
    """Where pandas cuts texts there, a row would else change how another one is read."""
    monkeypatch.setattr(labels, "_CUTS_TEXTS", labels._CUTS_TEXTS or cuts)
    for values in (["a", "a\0", "b", "a"], ["a\0", "a", None, ["a"], "a"], ["\0", "", "\0\0"]):
        codes, distinct = labels.factorized(objects(values))
        known = [v for v, code in zip(values, codes, strict=True) if code >= 0]
        assert [distinct[code] for code in codes if code >= 0] == known
        assert sorted(distinct) == sorted(set(known))
    assert labels.factorized(objects([]))[1] == []
