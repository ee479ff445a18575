"""Rows as a caller gives them to a fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skfairdp.records import Given


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
