"""Bins of declared bounds: nothing is learned, every row has as many ones."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from skfairdp import DPAdditiveClassifier, certify
from skfairdp.preprocessing import PublicBinner
from skfairdp.preprocessing.levels import OTHER
from tests.stored import ArrayRows

FLATS = pd.DataFrame(
    {"rooms": [1.0, 3.0, np.nan, np.inf], "city": ["Oslo", "Bonn", None, "Rome"]},
    index=list("abcd"),
)


def binner(**options: object) -> PublicBinner:
    return PublicBinner({"rooms": (0, 8)}, {"city": ["Oslo", "Rome"]}, n_bins=4, **options)


def test_bins_of_equal_width_and_of_equal_ratio() -> None:
    linear = binner(scale="linear").fit(FLATS).levels_[0][1].edges
    assert linear == (2.0, 4.0, 6.0)
    log = binner(scale="log").fit(FLATS).levels_[0][1].edges
    assert np.allclose(np.diff(np.log1p([0.0, *log, 8.0])), math.log(9) / 4)
    assert binner().fit(FLATS).levels_[0][1].edges == tuple(sorted({*linear, *log}))


def test_bins_on_both_sides_of_zero() -> None:
    edges = PublicBinner((-8, 8), n_bins=4, scale="log").fit([[0.0]]).levels_[0][1].edges
    assert np.allclose(edges, [-2, 0, 2])


def test_missing_unknown_and_infinite_values_have_a_level() -> None:
    table = binner(scale="linear").fit_transform(FLATS)
    assert list(table.index) == list("abcd")
    assert table["rooms"].cat.codes.tolist() == [0, 1, -1, 3]
    assert table["city"].tolist()[:2] == ["Oslo", OTHER]
    assert table["city"].isna().tolist() == [False, False, True, False]


@pytest.mark.parametrize("encoding", ["onehot", "thermometer"])
def test_numbers_for_other_nets(encoding: str) -> None:
    fitted = binner(scale="linear", encoding=encoding).fit(FLATS)
    encoded, names = fitted.transform(FLATS), fitted.get_feature_names_out()
    assert encoded.shape == (4, len(names))
    if encoding == "onehot":
        assert encoded.sum(axis=1).tolist() == [2.0] * 4
        assert names[:5].tolist() == [
            "rooms < 2", "rooms >= 2 and < 4", "rooms >= 4 and < 6", "rooms >= 6", "rooms missing",
        ]  # fmt: skip
    else:
        assert encoded[:, :4].tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 0]]


def test_the_levels_do_not_depend_on_the_rows() -> None:
    other = FLATS.iloc[:1].assign(rooms=7.0)
    assert binner().fit(FLATS).levels_ == binner().fit(other).levels_


def test_a_pipeline_with_it_costs_what_its_classifier_costs() -> None:
    rows = pd.DataFrame({"rooms": np.arange(2000) % 9.0})
    last = DPAdditiveClassifier(max_epochs=2, progress=False)
    model = make_pipeline(PublicBinner({"rooms": (0, 8)}), last).fit(rows, rows["rooms"] > 4)
    assert certify(model).privacy.epsilon == model[-1].privacy_.epsilon


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"bounds": {"rooms": (8, 0)}}, "low < high"),
        ({"bounds": {"rooms": (0, math.inf)}}, "finite"),
        ({"bounds": {"size": (0, 1)}}, "absent from X"),
        ({"bounds": {"rooms": (0, 1), "city": (0, 1)}}, "both bounds and categories"),
        ({"categories": {"city": "Oslo"}}, "list of texts"),
        ({"categories": {"city": ["Oslo", "Oslo"]}}, "repeats"),
        ({"categories": {"city": ["Oslo", None]}}, "not a category"),
        ({"categories": None}, "neither bounds nor categories"),
        ({"n_bins": 1}, "n_bins"),
        ({"scale": "cubic"}, "scale"),
        ({"encoding": "hot"}, "encoding"),
    ],
)
def test_wrong_declarations_are_refused(change: dict, match: str) -> None:
    wrong = binner().set_params(**change)
    with pytest.raises(ValueError, match=match):
        wrong.fit(FLATS)
    assert not hasattr(wrong, "n_features_in_")


def test_text_in_a_column_with_bounds_is_refused_and_not_quoted() -> None:
    with pytest.raises(ValueError, match="rooms.*not a number") as caught:
        binner().fit(FLATS.astype({"rooms": object}).assign(rooms=["secret", 1, 2, 3]))
    assert "secret" not in str(caught.value)


def test_columns_without_a_declaration_can_be_dropped() -> None:
    dropped = PublicBinner({"rooms": (0, 8)}, remainder="drop").fit(FLATS)
    assert list(dropped.transform(FLATS)) == ["rooms"]


def test_rows_on_disk_are_binned_a_part_at_a_time(monkeypatch) -> None:
    rows = np.random.default_rng(0).normal(size=(500, 3))
    rows[::7, 1] = np.nan
    stored, read = ArrayRows(rows), []
    monkeypatch.setattr(ArrayRows, "cache_bytes", 2400)  # 100 rows
    take = stored.take
    monkeypatch.setattr(stored, "take", lambda places: read.append(len(places)) or take(places))
    binner = PublicBinner((-2, 2), n_bins=300, scale="linear").fit(stored)
    assert read == []
    table = binner.transform(stored)
    assert read == [100] * 5
    pd.testing.assert_frame_equal(table, binner.transform(rows))
    assert {column.cat.codes.dtype for _, column in table.items()} == {np.dtype(np.int16)}
