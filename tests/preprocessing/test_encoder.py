"""PublicEncoder: declared categories in, zeros and ones out, nothing learned."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from skfairdp.preprocessing import PublicEncoder, PublicScaler


@parametrize_with_checks(
    [
        PublicEncoder({}),
        PublicEncoder({0: [0, 1, 2]}),
        PublicEncoder({0: [0, 1]}, drop="if_binary"),
    ],
    expected_failed_checks=lambda estimator: get_tags(estimator).expected_failed_checks,
)
def test_obeys_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def flats() -> pd.DataFrame:
    return pd.DataFrame({"city": ["Oslo", "Rome", "Bonn"], "rooms": [2, 3, 4]})


def test_agrees_with_one_hot_encoder_given_categories():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.choice(["x", "y", "z", "?"], 200), "b": rng.choice([1, 2, 3], 200)}
    )
    declared = {"a": ["z", "x", "y"], "b": [1, 3]}
    ours = PublicEncoder(declared).fit(frame)
    theirs = OneHotEncoder(
        categories=list(declared.values()), handle_unknown="ignore", sparse_output=False
    ).fit(frame)
    assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())
    np.testing.assert_array_equal(ours.transform(frame), theirs.transform(frame))


def test_unknown_and_missing_values_become_zeros(flats):
    flats.loc[0, "city"] = None
    encoded = PublicEncoder({"city": ["Oslo", "Rome"]}).fit_transform(flats)
    assert encoded.tolist() == [[0, 0, 2], [0, 1, 3], [0, 0, 4]]


def test_unknown_value_is_refused_on_request_without_quoting_it(flats):
    encoder = PublicEncoder({"city": ["Oslo", "Rome"]}, handle_unknown="error")
    with pytest.raises(ValueError, match="outside of its declared categories") as error:
        encoder.fit(flats)
    assert "Bonn" not in str(error.value)


def test_binary_column_becomes_one(flats):
    encoder = PublicEncoder({"city": ["Oslo", "Rome"]}, drop="if_binary").fit(flats)
    assert encoder.transform(flats).tolist() == [[0, 2], [1, 3], [0, 4]]
    assert encoder.get_feature_names_out().tolist() == ["city_Rome", "rooms"]


def test_names_match_the_output_and_set_output_uses_them(flats):
    encoder = PublicEncoder({"city": ["Oslo", "Rome"]}).set_output(transform="pandas")
    assert list(encoder.fit_transform(flats)) == ["city_Oslo", "city_Rome", "rooms"]


def test_object_arrays_are_declared_by_position():
    X = np.array([["Oslo", 2.0], ["Rome", 3.0]], dtype=object)
    encoder = PublicEncoder({0: ["Rome"]}).fit(X)
    assert encoder.transform(X).tolist() == [[0, 2], [1, 3]]
    assert encoder.get_feature_names_out().tolist() == ["x0_Rome", "x1"]


def test_codes_read_as_floats_are_still_known():
    frame = pd.DataFrame({"code": [1.0, 2.0, np.nan]})
    assert PublicEncoder({"code": [1, 2]}).fit_transform(frame).tolist() == [[1, 0], [0, 1], [0, 0]]


def test_truth_values_are_categories():
    frame = pd.DataFrame({"flag": [True, False]})
    assert PublicEncoder({"flag": [False, True]}).fit_transform(frame).tolist() == [[0, 1], [1, 0]]


def test_categorical_dtype_is_read():
    frame = pd.DataFrame({"city": pd.Categorical(["Oslo", "Bonn"])})
    assert PublicEncoder({"city": ["Oslo"]}).fit_transform(frame).tolist() == [[1], [0]]


def test_rows_change_nothing_that_is_learned(flats):
    encoder = PublicEncoder({"city": ["Oslo", "Rome"]})
    first, second = clone(encoder).fit(flats), clone(encoder).fit(flats.iloc[:1])
    assert pickle.dumps(first) == pickle.dumps(second)
    assert PublicEncoder._learns_from_rows is False


def test_undeclared_text_is_refused_without_quoting_it(flats):
    with pytest.raises(ValueError, match="'city' has no declared categories") as error:
        PublicEncoder({"rooms": [2, 3]}).fit(flats)
    assert "Oslo" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"categories": {"town": ["Oslo"]}}, "categories declares"),
        ({"categories": {"city": []}}, "at least one"),
        ({"categories": {"city": ["Oslo", "Oslo"]}}, "repeats"),
        ({"categories": {"rooms": ["2", "3"]}}, "different kinds"),
        ({"categories": ["Oslo"]}, "must be a mapping"),
        ({"categories": {}, "handle_unknown": "drop"}, "handle_unknown"),
        ({"categories": {}, "drop": "first"}, "drop"),
        ({"categories": {}, "dtype": int}, "dtype"),
    ],
)
def test_malformed_declaration_is_named(flats, arguments, message):
    with pytest.raises(ValueError, match=message):
        PublicEncoder(**arguments).fit(flats)


def test_scaler_and_encoder_find_their_columns_in_a_pipeline(flats):
    pipeline = make_pipeline(PublicScaler({"rooms": (2, 4)}), PublicEncoder({"city": ["Oslo"]}))
    assert pipeline.fit_transform(flats).tolist() == [[1, -1], [0, 0], [0, 1]]
    assert pipeline.get_feature_names_out().tolist() == ["city_Oslo", "rooms"]


def test_output_dtype_is_the_one_asked_for(flats):
    encoder = PublicEncoder({"city": ["Oslo"]}, dtype=np.float32)
    assert encoder.fit_transform(flats).dtype == np.float32


def test_categories_given_as_one_text_are_refused():
    with pytest.raises(ValueError, match="a list of its letters"):
        PublicEncoder({"c": "uv"}).fit(pd.DataFrame({"c": ["u", "v"]}))
