from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skfairdp import fairness, records
from skfairdp.exceptions import UnknownGroupError
from skfairdp.records.groups import encode_groups, groups_of_training

VALUES = ["b", "a", "b"]


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        tuple(VALUES),
        np.array(VALUES),
        np.array(VALUES, dtype=object),
        np.array(VALUES)[:, np.newaxis],
        pd.Series(VALUES, index=[7, 7, 1]),
        pd.Series(VALUES, dtype="category"),
        pd.Series(VALUES, dtype="string"),
        pd.Series(VALUES, dtype="str"),
        pd.DataFrame({"g": VALUES}),
    ],
)
def test_every_container_gives_the_same_codes(values):
    groups = encode_groups(values, n_rows=3)
    assert groups.labels == ("a", "b")
    assert all(type(label) is str for label in groups.labels)
    assert groups.codes.dtype in (np.int64, np.int32)
    assert groups.codes.tolist() == [1, 0, 1]
    assert groups.counts.tolist() == [1, 2]


@pytest.mark.parametrize(
    "values",
    [
        ["a", None],
        ["a", np.nan],
        ["a", pd.NA],
        np.array(["a", np.nan], dtype=object),
        np.array([1.0, np.nan]),
        pd.Series(["a", np.nan]),
        pd.Series(["a", None], dtype="str"),
        pd.Series(["a", pd.NA], dtype="string"),
        pd.Series(["a", None], dtype="category"),
        pd.Series([1, pd.NA], dtype="Int64"),
        pd.Series(pd.to_datetime(["2020-01-01", None])),
        pd.DataFrame({"g": ["a", "a"], "h": ["x", None]}),
    ],
)
def test_every_kind_of_missing_value_is_refused_or_dropped(values):
    with pytest.raises(ValueError, match="missing"):
        encode_groups(values, n_rows=2)
    groups = encode_groups(values, n_rows=2, on_missing="drop")
    assert groups.codes.tolist() == [0, -1]
    assert len(groups.labels) == 1


def test_a_missing_value_in_a_list_is_not_the_text_nan():
    assert encode_groups(["nan", np.nan], n_rows=2, on_missing="drop").labels == ("nan",)


def test_several_columns_become_their_intersections():
    frame = pd.DataFrame({"sex": ["F", "M", "F"], "age": [2, 1, 1]})
    groups = encode_groups(frame, n_rows=3)
    assert groups.labels == (("F", 1), ("F", 2), ("M", 1))
    assert groups.codes.tolist() == [1, 2, 0]
    assert type(groups.labels[0][1]) is int
    assert encode_groups(frame.to_numpy(), n_rows=3).labels == groups.labels


def test_declared_labels_keep_their_order_and_empty_groups():
    groups = encode_groups([1, 1], n_rows=2, labels=[2, np.int64(1), 3])
    assert groups.labels == (2, 1, 3)
    assert groups.codes.tolist() == [1, 1]
    assert groups.counts.tolist() == [0, 2, 0]


def test_a_hundred_groups_may_occur_and_more_are_declared():
    assert groups_of_training(np.arange(100), 100).labels == tuple(range(100))
    with pytest.raises(ValueError, match="holds 101 different"):
        groups_of_training(np.arange(101), 101)
    assert len(groups_of_training(np.arange(101), 101, range(101)).labels) == 101


def test_numbers_match_across_dtypes():
    assert encode_groups([1.0, 0.0], n_rows=2, labels=[0, 1]).codes.tolist() == [1, 0]


def test_unknown_group_raises_without_showing_the_value():
    with pytest.raises(UnknownGroupError, match="known ones") as caught:
        encode_groups(["secret", "a"], n_rows=2, labels=["a"])
    assert "secret" not in str(caught.value)
    dropped = encode_groups(["secret", "a"], n_rows=2, labels=["a"], on_unknown="drop")
    assert dropped.codes.tolist() == [-1, 0]


def test_wrong_length_is_refused_without_a_count():
    with pytest.raises(ValueError, match=r"another number of rows than X;[^0-9]*$"):
        encode_groups(["a", "b"], n_rows=3)


@pytest.mark.parametrize("labels", [["a", "a"], ["a", None], [("a", float("nan"))], [pd.NA]])
def test_bad_declared_labels_are_refused(labels):
    with pytest.raises(ValueError, match="declared groups"):
        encode_groups(["a"], n_rows=1, labels=labels)


def test_a_cube_is_refused():
    with pytest.raises(ValueError, match="3 dimensions"):
        encode_groups(np.zeros((2, 2, 2)), n_rows=2)


def test_no_rows_give_no_codes():
    groups = encode_groups([], n_rows=0, labels=["a"])
    assert groups.codes.shape == (0,)


scalars = st.one_of(st.none(), st.integers(-3, 3), st.text(max_size=2), st.booleans())


@given(st.lists(scalars, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_labels_do_not_depend_on_row_order(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    one = encode_groups(values, n_rows=len(values), on_missing="drop")
    other = encode_groups(shuffled, n_rows=len(values), on_missing="drop")
    assert one.labels == other.labels
    for value, code in zip(values, one.codes, strict=True):
        assert (code < 0) if value is None else one.labels[code] == value


@pytest.mark.parametrize("name", ["Groups", "encode_groups"])
def test_names_that_moved_from_fairness_are_found_there_with_a_warning(name: str) -> None:
    with pytest.warns(FutureWarning, match=f"skfairdp.records.{name}"):
        assert getattr(fairness, name) is getattr(records, name)
    with pytest.raises(AttributeError):
        fairness.encode_everything  # noqa: B018


def test_a_name_of_a_column_is_no_group_of_each_row() -> None:
    with pytest.raises(ValueError, match="'?sensitive_features'? has the type str; give one value"):
        encode_groups("sex", n_rows=3)
