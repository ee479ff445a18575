"""One changed cell changes the reading of no other cell, whatever the container."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skfairdp.fairness.groups import encode_groups
from skfairdp.labels import label_column, positions
from skfairdp.one_column import column_cells, of_one_kind

LARGE = 2**53 + 1
CHANGED = [None, 0.5, "text", "", LARGE - 1, float("nan")]


def codes(column: object, n: int) -> list[int]:
    return positions(label_column(column, n, declared=True), [LARGE - 1, LARGE]).tolist()


@pytest.mark.parametrize("cell", CHANGED, ids=repr)
def test_a_list_is_read_cell_by_cell(cell: object) -> None:
    labels = [LARGE - 1, LARGE, LARGE, LARGE - 1]
    assert codes([*labels, LARGE], 5)[:4] == codes([*labels, cell], 5)[:4] == [0, 1, 1, 0]
    assert np.asarray([*labels, 0.5]).dtype == np.float64  # what numpy would make of all of them


@pytest.mark.parametrize("name", ["Int64", "int64[pyarrow]", "arrow", "polars"])
def test_a_missing_cell_makes_floats_of_no_other(name: str) -> None:
    def made(values: list[int | None]) -> object:
        if name == "arrow":
            return pa.array(values, type=pa.int64())
        if name == "polars":
            return pytest.importorskip("polars").Series(values)
        return pd.Series(values, dtype=name)

    whole, gap = made([LARGE, LARGE - 1, 0]), made([LARGE, LARGE - 1, None])
    assert codes(whole, 3)[:2] == codes(gap, 3)[:2] == [1, 0]
    groups = encode_groups(gap, n_rows=3, labels=[LARGE - 1, LARGE], on_missing="drop")
    assert groups.codes.tolist() == [1, 0, -1]
    assert int(np.asarray(gap)[0]) != LARGE  # what numpy would make of it


def test_only_objects_of_one_kind_get_a_type() -> None:
    assert of_one_kind(column_cells([1, True, 2.0])).tolist() == [1, 1, 2]
    assert of_one_kind(column_cells(["a", "b"])).dtype.kind == "U"
    assert of_one_kind(column_cells(["a\0", "a"])).tolist() == ["a\0", "a"]
    assert of_one_kind(column_cells([1, "a"])).dtype == object
