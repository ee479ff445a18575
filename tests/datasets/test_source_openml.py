"""Rows from OpenML come out in the shape of the file, checked without a network.

OpenML's form of each table is rebuilt from the file: its names, its order, its categoricals and
its missing values. The loader must turn it back into the same Bunch.
"""

from __future__ import annotations

import pandas as pd
import pytest
from sklearn.utils import Bunch

import skfairdp.datasets.source as source
from skfairdp.datasets import (
    fetch_abalone,
    fetch_adult,
    fetch_bank,
    fetch_default_credit,
    fetch_diabetes130,
)


@pytest.fixture
def serve(monkeypatch):
    """Let OpenML answer with a frame; returns the identifiers that were asked for."""

    def prepare(frame: pd.DataFrame) -> list[int]:
        asked: list[int] = []

        def answer(*, data_id, as_frame, parser):
            asked.append(data_id)
            return Bunch(frame=frame)

        monkeypatch.setattr(source, "fetch_openml", answer)
        monkeypatch.delenv("SKFAIRDP_DATA", raising=False)
        return asked

    return prepare


def read(data_home, name):
    return pd.read_csv(data_home / name, keep_default_na=False, low_memory=False)


def assert_same(ours: Bunch, expected: Bunch) -> None:
    pd.testing.assert_frame_equal(ours.data, expected.data, check_dtype=False)
    pd.testing.assert_series_equal(ours.target, expected.target)
    pd.testing.assert_series_equal(
        ours.sensitive_features, expected.sensitive_features, check_dtype=False
    )
    assert ours.bounds == expected.bounds
    assert ours.categories == expected.categories
    assert "OpenML" in ours.DESCR
    assert "OpenML" not in expected.DESCR


def test_adult(data_home, serve):
    expected = fetch_adult(data_home=data_home)
    rows = read(data_home, "adult.csv.gz")
    rows = pd.concat([rows[rows["split"] == "test"], rows[rows["split"] == "train"]])
    rows = rows.drop(columns="split").rename(columns={"income": "class"}).reset_index(drop=True)
    for column in rows.select_dtypes(exclude="number"):
        rows[column] = rows[column].mask(rows[column] == "?").astype("category")
    asked = serve(rows)
    ours = fetch_adult()
    assert asked == [1590]
    assert_same(ours, expected)
    assert (ours.split == expected.split).all()


def test_adult_in_another_order_has_no_split(data_home, serve):
    rows = read(data_home, "adult.csv.gz").drop(columns="split")
    serve(rows.rename(columns={"income": "class"}).iloc[:100])
    assert fetch_adult().split is None


def test_default_credit(data_home, serve):
    expected = fetch_default_credit(data_home=data_home)
    rows = read(data_home, "default_ccc.csv.gz")
    rows.columns = [f"x{number}" for number in range(1, 24)] + ["y"]
    rows["y"] = rows["y"].astype(str).astype("category")
    asked = serve(rows.astype({"x1": float}))
    assert_same(fetch_default_credit(), expected)
    assert asked == [42477]


def test_bank(data_home, serve):
    expected = fetch_bank(data_home=data_home)
    rows = read(data_home, "bank_full.csv.gz")
    rows.columns = [f"V{number}" for number in range(1, 17)] + ["Class"]
    rows["Class"] = rows["Class"].map({"no": "1", "yes": "2"}).astype("category")
    rows["V2"] = rows["V2"].astype("category")
    asked = serve(rows)
    assert_same(fetch_bank(), expected)
    assert asked == [1461]


def test_abalone(data_home, serve):
    expected = fetch_abalone(data_home=data_home)
    rows = read(data_home, "abalone.csv.gz").drop(columns="fairdp_split")
    rows = rows.rename(columns={"Rings": "Class_number_of_rings"})
    for column in ("Sex", "Class_number_of_rings"):
        rows[column] = rows[column].astype(str).astype("category")
    asked = serve(rows)
    assert_same(fetch_abalone(), expected)
    assert asked == [183]
    with pytest.raises(ValueError, match="fairdp_split"):
        fetch_abalone(subset="fairdp")


@pytest.mark.slow
def test_diabetes130(data_home, serve):
    expected = fetch_diabetes130(data_home=data_home)
    rows = read(data_home, "diabetes130.csv.gz")
    for column in rows.select_dtypes(exclude="number"):
        missing = rows[column].isin(["?", "None"])
        rows[column] = rows[column].mask(missing).astype("category")
    asked = serve(rows)
    ours = fetch_diabetes130()
    assert asked == [4541]
    assert_same(ours, expected)
    assert (ours.owners == expected.owners).all()


def test_changed_table_is_refused(serve):
    serve(pd.DataFrame({"V1": [1]}))
    with pytest.raises(ValueError, match=r"OpenML 1461 lacks the columns"):
        fetch_bank()
