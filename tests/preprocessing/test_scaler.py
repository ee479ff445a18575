"""PublicScaler: declared bounds in, one range out, nothing learned."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from skfairdp.preprocessing import PublicScaler


@parametrize_with_checks(
    [
        PublicScaler((-10, 10)),
        PublicScaler((-10, 10), fill=0.0),
        PublicScaler((-10, 10), log_columns=[0], feature_range=(0, 1)),
        PublicScaler({0: (-3, 3)}),
    ]
)
def test_obeys_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def people() -> pd.DataFrame:
    return pd.DataFrame(
        {"age": [10, 50, 90], "city": ["Rome", "Oslo", "Oslo"], "gain": [0.0, 999.0, 1e6]},
        index=[7, 8, 9],
    )


def test_bounds_reach_the_ends_of_the_range_and_outside_is_clipped(people):
    scaled = PublicScaler({"age": (20, 80)}).fit_transform(people)
    assert scaled["age"].tolist() == [-1.0, 0.0, 1.0]


def test_other_columns_index_and_order_pass_through(people):
    scaled = PublicScaler({"gain": (0, 999)}).fit_transform(people)
    assert list(scaled.columns) == ["age", "city", "gain"]
    pd.testing.assert_frame_equal(scaled[["age", "city"]], people[["age", "city"]])
    assert list(scaled.index) == [7, 8, 9]


def test_input_is_not_changed(people):
    before = people.copy()
    PublicScaler({"age": (20, 80), "gain": (0, 999)}).fit_transform(people)
    pd.testing.assert_frame_equal(people, before)
    X = np.array([[5.0], [7.0]])
    PublicScaler((0, 1)).fit_transform(X)
    assert X.tolist() == [[5.0], [7.0]]


def test_log_columns_are_bent_before_the_map(people):
    scaled = PublicScaler(
        {"gain": (0, 999_999)}, log_columns=["gain"], feature_range=(0, 1)
    ).fit_transform(people)
    np.testing.assert_allclose(scaled["gain"], [0.0, 0.5, 1.0], atol=1e-12)


def test_bending_is_odd_so_debts_are_allowed():
    scaled = PublicScaler((-99, 99), log_columns=[0]).fit_transform([[-9.0], [0.0], [9.0]])
    np.testing.assert_allclose(scaled[:, 0], [-0.5, 0.0, 0.5], atol=1e-12)


def test_columns_of_an_array_are_declared_by_position():
    X = np.array([[0.0, 5.0], [10.0, 6.0]])
    assert PublicScaler({0: (0, 10)}).fit_transform(X).tolist() == [[-1, 5], [1, 6]]
    assert PublicScaler([(0, 10), (5, 6)]).fit_transform(X).tolist() == [[-1, -1], [1, 1]]


def test_rows_change_nothing_that_is_learned():
    first = PublicScaler((0, 10)).fit([[1.0], [2.0]])
    second = PublicScaler((0, 10)).fit([[9.0], [0.5], [3.0]])
    assert pickle.dumps(first) == pickle.dumps(second)
    assert PublicScaler._learns_from_rows is False


def test_clone_and_pickle_transform_alike(people):
    scaler = PublicScaler({"age": (20, 80)}, log_columns=("age",)).fit(people)
    expected = scaler.transform(people)
    for twin in (pickle.loads(pickle.dumps(scaler)), clone(scaler).fit(people)):
        pd.testing.assert_frame_equal(twin.transform(people), expected)


def test_single_precision_stays_single():
    X = np.array([[0.25], [3.0]], dtype=np.float32)
    assert PublicScaler((0, 1)).fit_transform(X).dtype == np.float32
    frame = pd.DataFrame({"a": X[:, 0]})
    assert PublicScaler({"a": (0, 1)}).fit_transform(frame)["a"].dtype == np.float32


def test_set_output_and_names(people):
    scaler = PublicScaler({"age": (20, 80)}).set_output(transform="pandas").fit(people)
    assert list(scaler.transform(people).columns) == list(scaler.get_feature_names_out())


@pytest.mark.parametrize("gap", [np.nan, None, pd.NA])
def test_missing_value_needs_a_constant(gap):
    frame = pd.DataFrame({"age": pd.Series([30, gap], dtype=object)})
    with pytest.raises(ValueError, match=r"NaN in \['age'\].*fill="):
        PublicScaler({"age": (20, 80)}).fit_transform(frame)
    filled = PublicScaler({"age": (20, 80)}, fill={"age": 50}).fit_transform(frame)
    assert filled["age"].iloc[1] == 0.0


def test_nullable_columns_are_read():
    frame = pd.DataFrame({"age": pd.array([30, None], dtype="Int64")})
    filled = PublicScaler({"age": (20, 80)}, fill=50).fit_transform(frame)
    assert filled["age"].iloc[1] == 0.0


def test_infinity_is_refused_even_with_fill():
    with pytest.raises(ValueError, match="infinity"):
        PublicScaler((0, 1), fill=0.0).fit_transform([[np.inf]])


def test_text_in_a_declared_column_is_refused_without_quoting_it():
    frame = pd.DataFrame({"age": ["30", "secret-value"]})
    with pytest.raises(ValueError, match="'age'") as error:
        PublicScaler({"age": (20, 80)}).fit(frame)
    assert "secret" not in str(error.value)
    assert error.value.__context__ is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bounds": {"agee": (0, 1)}}, "bounds declares"),
        ({"bounds": {"age": (1, 1)}}, "low < high"),
        ({"bounds": {"age": (0, np.inf)}}, "finite"),
        ({"bounds": {"age": 3}}, "pair of numbers"),
        ({"bounds": [(0, 1)]}, "bounds has shape"),
        ({"bounds": {"age": (0, 1)}, "log_columns": ("gain",)}, "log_columns declares"),
        ({"bounds": {"age": (0, 1)}, "fill": {"gain": 0}}, "fill declares"),
        ({"bounds": {"age": (0, 1)}, "feature_range": (1, 0)}, "feature_range"),
    ],
)
def test_malformed_declaration_is_named(people, arguments, message):
    with pytest.raises(ValueError, match=message):
        PublicScaler(**arguments).fit(people)


@given(
    arrays(np.float64, (5, 1), elements=st.floats(allow_nan=False, allow_infinity=False)),
    st.floats(-1e308, 1e308),
    st.floats(-1e308, 1e308),
)
def test_output_never_leaves_the_range(values, one, other):
    low, high = min(one, other), max(one, other)
    if not (high - low) / 2 > 1e-300:
        return
    # With these ends, low + (high - low) rounds to more than high.
    scaled = PublicScaler((low, high), feature_range=(-1.0, -0.2)).fit_transform(values)
    assert np.isfinite(scaled).all()
    assert scaled.min() >= -1.0
    assert scaled.max() <= -0.2
