"""One changed cell changes the reading of no other cell, whatever the container."""

from __future__ import annotations

import ast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skfairdp.records.groups import encode_groups
from skfairdp.records.labels import label_column, positions
from skfairdp.records.one_column import column_cells, of_one_kind
from tests.common.listed_calls import calling, found_in, listed_in, name_of

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


@pytest.mark.parametrize("name", ["dictionary", "runs", "extension"])
@pytest.mark.parametrize("pandas", [False, True], ids=["arrow", "pandas"])
def test_a_null_that_arrow_does_not_count_makes_floats_of_no_other(name: str, pandas: bool) -> None:
    def made(values: list[int | None]) -> object:
        stored: pa.Array = pa.array(values, type=pa.int64())
        if name == "runs":
            stored = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), stored)
        else:
            stored = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), stored)
        assert stored.null_count == 0
        if name == "extension":
            stored = pa.ExtensionArray.from_storage(pa.opaque(stored.type, "kind", "us"), stored)
        if not pandas:
            return stored
        return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([stored])))

    for column in (made([LARGE, LARGE - 1, 0]), made([LARGE, LARGE - 1, None])):
        assert codes(column, 3)[:2] == [1, 0]


def test_only_objects_of_one_kind_get_a_type() -> None:
    assert of_one_kind(column_cells([1, True, 2.0])).tolist() == [1, 1, 2]
    assert of_one_kind(column_cells(["a", "b"])).dtype.kind == "U"
    assert of_one_kind(column_cells(["a\0", "a"])).tolist() == ["a\0", "a"]
    assert of_one_kind(column_cells([1, "a"])).dtype == object


# Calls that may choose one type for many values by looking at all of them.
CHOOSING = {
    "Categorical", "DataFrame", "Index", "Series", "array", "asanyarray", "asarray",
    "ascontiguousarray", "check_array", "column_stack", "concat", "concatenate", "convert_dtypes",
    "factorize", "find_common_type", "from_pandas", "from_records", "fromiter", "hstack",
    "infer_objects", "promote_types", "read_csv", "read_parquet", "result_type", "stack",
    "tensor", "to_datetime", "to_numeric", "to_numpy", "to_pandas", "unique", "validate_data",
    "vstack",
}  # fmt: skip
# Where private cells are read, before the engine has them.
READING = (
    "aggregation/query_rows.py", "certificate/holdout.py", "command_line",
    "datasets/parquet_rows.py", "engine/nets.py", "engine/overlap.py", "engine/table_release.py",
    "records/groups.py", "inprocessing/gradient.py", "engine/run.py",
    "monitoring/waiting.py", "postprocessing/abstaining.py", "postprocessing/group_models.py",
    "postprocessing/passing_groups.py", "preprocessing", "receipts/unwrap.py", "records/labels.py",
    "records/numbers.py",
    "records/one_column.py", "records/persons.py", "records/rows.py", "records/stored_rows.py",
    "representation/release_memory.py", "representation/releasing.py",
)  # fmt: skip
# Why a call changes no cell because of another one:
#   typed     its argument has one type already: an array, or a column whose type is declared
#   objects   its argument is of Python objects, which stay as they are
#   counted   codes, positions, noise or other numbers that are computed here
#   public    names, declared values, settings, answers of a released model
#   exact     a cell that another type would change is refused, or kept exactly
#   warning   a warning for the owner of the rows, which no guarantee covers
REASONS = {"typed", "objects", "counted", "public", "exact", "warning"}
ALLOWED: dict[str, dict[str, str]] = {
    "certificate/holdout.py": {
        "public": "answers_to answers_to.one_after_another _classes check_positive _chances",
        "counted": "HeldOut.averaged",
        "typed": "HeldOut.scores",
    },
    "command_line/groups.py": {"counted": "checked_groups", "public": "with_groups_as_asked"},
    "command_line/reading.py": {"typed": "_parquet of_one_type", "public": "_csv"},
    "command_line/filing.py": {
        "typed": "ChargedReport._certificate",
    },
    "command_line/monitoring.py": {"typed": "_outcomes"},
    "command_line/path_points.py": {"public": "other_tolerances"},
    "command_line/planning.py": {"counted": "Outlook._counted", "public": "Outlook._spelt_alike"},
    "command_line/table.py": {"typed": "_outcome"},
    "datasets/parquet_rows.py": {
        "typed": "ParquetRows.__init__ ParquetRows._as_given ParquetRows._categories "
        "ParquetRows.column _kind _numbers",
        "counted": "ParquetRows._take",
    },
    "records/stored_rows.py": {
        "counted": "MemmapRows._state",
        "public": "in_chunks.answered",
        "typed": "StoredRows.column",
    },
    "engine/overlap.py": {"typed": "_digests", "counted": "_log_transform log_chance sketch"},
    "engine/table_release.py": {"typed": "Cells.as_texts"},
    "records/groups.py": {"counted": "_combined"},
    "engine/run.py": {"counted": "joined"},
    "records/labels.py": {
        "counted": "count_rows recoded",
        "typed": "encode_labels take_rows",
        "objects": "factorized",
        "public": "<module>",  # two texts of its own, which say how pandas reads a NUL
    },
    "receipts/unwrap.py": {"public": "Deployed.predict"},
    "monitoring/waiting.py": {"exact": "binary"},
    "records/numbers.py": {"exact": "number_column"},
    "records/one_column.py": {"typed": "_of_columnar _of_pandas column_cells table_of unmasked"},
    "records/persons.py": {"counted": "encode_persons", "warning": "_measured warn_of_ids"},
    "postprocessing/abstaining.py": {
        "typed": "AbstainingClassifier._fit",
        "public": "AbstainingClassifier.predict",
    },
    "postprocessing/group_models.py": {"typed": "group_parts"},
    "postprocessing/passing_groups.py": {"public": "abstention_marker"},
    "preprocessing/cells.py": {"counted": "days read_cells"},
    "preprocessing/columns.py": {"typed": "column replaced"},
    "preprocessing/levels.py": {
        "typed": "LevelsMixin._frame LevelsMixin._output encoded_levels sparse_levels",
        "public": "public_intervals",
    },
    "preprocessing/table_levels.py": {"public": "divided <module>"},
    "preprocessing/thinning.py": {
        "public": "PrivateThinningClassifier._expected_plan",
        "typed": "PrivateThinningClassifier._fit",
    },
    "representation/release_memory.py": {
        "counted": "ReleaseMemory.count ReleaseMemory.note _among",
    },
    "records/rows.py": {"exact": "validated"},
}


def chooses(call: ast.Call) -> bool:
    """Whether a call may choose a type: it makes an array or column and is given no dtype."""
    name = name_of(call)
    positional = name in {"array", "asarray"} and len(call.args) > 1
    given = positional or any(keyword.arg == "dtype" for keyword in call.keywords)
    return name in CHOOSING and not given


@pytest.mark.parametrize("room", READING)
def test_no_unlisted_call_chooses_a_type_for_many_cells(room: str) -> None:
    # Read cells by `column_cells`, or pass a dtype; list what is harmless with its reason.
    assert found_in(room, chooses) == listed_in(room, ALLOWED)


def test_reasons_are_those_that_are_explained() -> None:
    assert {reason for reasons in ALLOWED.values() for reason in reasons} <= REASONS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("np.asarray(y)", True), ("np.array(rows)", True), ("pd.Series(cells)", True),
        ("np.unique(y)", True), ("column.to_numpy()", True), ("np.stack(columns)", True),
        ("np.asarray(y, dtype=object)", False), ("np.asarray(y, object)", False),
        ("pd.Series(cells, dtype=object)", False), ("column_cells(y)", False),
    ],
)  # fmt: skip
def test_a_call_that_chooses_is_found(text: str, found: bool) -> None:
    assert (list(calling(ast.parse(f"def f():\n    {text}"), chooses)) == ["f"]) is found
