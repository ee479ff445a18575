"""Targets that are numbers: each cell is read by itself, and scaled by public bounds alone."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import DataConversionWarning

from skfairdp.records.numbers import INTERVAL, TargetBounds, check_numbers, number_column

BASE = [0.1, 2.0**53 + 1, -3.0, 7.0]


@pytest.mark.parametrize("changed", [0.5, 5, True, 2**53 + 1, np.float32(0.1), None, pd.NA])
@pytest.mark.parametrize(
    "kind", [list, lambda y: pd.Series(y, dtype=object), lambda y: np.array(y, dtype=object)]
)
def test_a_changed_cell_leaves_the_bits_of_all_others(changed, kind):
    before = number_column(kind(BASE), 4)
    after = number_column(kind([changed, *BASE[1:]]), 4)
    assert before[1:].tobytes() == after[1:].tobytes()


@pytest.mark.parametrize(
    "y",
    [
        np.array([1, 2, 4]),
        np.array([1, 2, 4], dtype=np.uint8),
        [1.0, Decimal("2"), 4],
        pd.Series([1, 2, 4], dtype="Int64"),
        pd.Series([1.0, 2.0, 4.0], dtype="Float32"),
        np.ma.masked_array([1.0, 2.0, 4.0], mask=False),
    ],
)
def test_numbers_of_every_kind_are_read(y):
    assert number_column(y, 3).tolist() == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y"),
        ([1.0, np.nan, 2.0], "NaN"),
        ([1.0, None, 2.0], "NaN"),
        (pd.Series([1, None, 2], dtype="Int64"), "NaN"),
        (np.ma.masked_array([1.0, 5.0, 2.0], mask=[0, 1, 0]), "NaN"),
        ([1.0, np.inf, 2.0], "infinity"),
        ([1, 10**400, 2], "infinity"),
        ([3.0, 3.0, 3.0], "constant"),
        (["1", "secret-42", "2"], "not numbers"),
        ([1.0, "secret-42", 2.0], "not numbers"),
        (pd.to_datetime(["2020-01-01"] * 3), "not numbers"),
        ([1.0, 2j, 2.0], "Complex"),
        ([1.0, 2.0], "inconsistent"),
        ([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]], "one dimension"),
        ([[1.0, 2.0], [1.0], [3.0]], "one dimension"),
    ],
)
def test_what_is_no_finite_number_is_refused_and_not_quoted(y, message):
    with pytest.raises(ValueError, match=message) as caught:
        check_numbers(object(), y, 3)
    assert "secret" not in str(caught.value)


def test_a_column_vector_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        assert number_column(np.array([[1.0], [2.0]]), 2).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "pair", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1), (0,), "ab", None, (1.0, 1.0 + 1e-15), 5]
)
def test_bounds_without_room_are_no_interval(pair):
    assert not INTERVAL.accepts(pair)
    assert INTERVAL.accepts((0, 1))
    assert INTERVAL.accepts(np.array([-1.0, 1.0]))


def test_scaling_clips_and_comes_back():
    bounds = TargetBounds(10.0, 30.0)
    numbers = np.array([-1e300, 10.0, 15.0, 30.0, 1e300])
    assert bounds.scaled(numbers).tolist() == [-1.0, -1.0, -0.5, 1.0, 1.0]
    assert bounds.unscaled(bounds.scaled(numbers)).tolist() == [10.0, 10.0, 15.0, 30.0, 30.0]
    of_torch = bounds.scaled(torch.from_numpy(numbers)).numpy()
    assert np.array_equal(of_torch, bounds.scaled(numbers))
