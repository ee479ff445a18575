"""Frames of polars are read as those of pandas are, and scaled ones stay what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from skfairdp import DPAdditiveClassifier, certify
from skfairdp.preprocessing import PrivateTableEncoder, PublicBinner, PublicEncoder, PublicScaler

pl = pytest.importorskip("polars", reason="needs polars")

RNG = np.random.default_rng(0)
N = 900
CELLS: dict[str, list[Any]] = {
    "age": [None if i % 7 == 0 else i % 60 for i in range(N)],
    "income": RNG.exponential(1e3, N).tolist(),
    "job": [None if i % 5 == 0 else "abc"[i % 3] for i in range(N)],
    "owner": [i % 2 == 0 for i in range(N)],
}
BOUNDS = {"age": (0, 60), "income": (0, 5e3), "owner": (0, 1)}


def test_public_bins_are_those_of_pandas() -> None:
    binner = PublicBinner(BOUNDS, {"job": ["a", "b", "c"]})
    expected = binner.fit_transform(pd.DataFrame(CELLS))
    pd.testing.assert_frame_equal(binner.fit_transform(pl.DataFrame(CELLS)), expected)


def test_scaled_columns_stay_in_a_frame_of_polars() -> None:
    rows, scaler = pl.DataFrame(CELLS), PublicScaler({"age": (0, 60)}, fill={"age": 0})
    scaled = scaler.fit_transform(rows)
    assert isinstance(scaled, pl.DataFrame)
    expected = scaler.fit_transform(pd.DataFrame(CELLS))["age"]
    np.testing.assert_array_equal(scaled["age"].to_numpy(), expected)
    assert scaled.drop("age").equals(rows.drop("age"))
    assert rows["age"].dtype == pl.Int64
    coded = PublicEncoder({"job": ["a", "b"]}).fit(scaled.select("age", "job"))
    assert list(coded.get_feature_names_out()) == ["age", "job_a", "job_b"]


def test_a_private_table_learned_from_polars_reads_pandas_alike() -> None:
    encoder = PrivateTableEncoder(epsilon=50.0).fit(pl.DataFrame(CELLS))
    pd.testing.assert_frame_equal(
        encoder.transform(pl.DataFrame(CELLS)), encoder.transform(pd.DataFrame(CELLS))
    )


def test_a_pipeline_is_fitted_and_certified_on_polars() -> None:
    rows, y = pl.DataFrame(CELLS), pl.Series(RNG.integers(0, 2, N))
    groups = pl.Series(["x", "y"] * (N // 2))
    model = make_pipeline(
        PublicBinner(BOUNDS, {"job": ["a", "b", "c"]}),
        DPAdditiveClassifier(max_epochs=1, progress=False),
    ).fit(rows, y)
    assert (
        certify(model, rows, y, sensitive_features=groups, holdout="public").fairness[0].bound
        <= 1.0
    )
