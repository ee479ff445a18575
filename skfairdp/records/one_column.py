"""Columns of any container: each cell is read by itself, into a type fixed beforehand.

numpy, pandas, polars and Arrow choose one type for a whole column by looking at all of its cells:
one null makes every whole number a float, one text makes every number a text. The value of a
record would then depend on other records, which no clipping norm bounds. No function here asks
them to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_INT64 = 2**63
_NOT_A_COLUMN = str, bytes, set, frozenset, dict  # a set has no order


def unmasked(values: Any) -> Any:
    """Masked entries of an array as missing ones: NaN among floats, else None."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return np.asarray(values)
    if values.dtype.kind == "f":
        return values.filled(np.nan)
    cells = values.data.astype(object)
    cells[np.ma.getmaskarray(values)] = None
    return cells


def column_cells(values: Any) -> NDArray[Any] | pd.Categorical:
    """Return the cells of a column, as they are.

    Parameters
    ----------
    values : array-like, shape (n,)
        A list or tuple, an array, a Series, Index or array of pandas, a column of polars or Arrow.

    Returns
    -------
    ndarray, shape (n,), or pandas.Categorical
        An array with a type of its own as it is (of two dimensions too); categories as categories;
        all else as Python objects, unless the column declares numbers and none is missing. A value
        is the same one in either form.

    Raises
    ------
    TypeError
        For something that has no cells.
    """
    values = unmasked(values)
    if isinstance(values, np.ndarray):
        dates = values.dtype.kind in "mM" and values.ndim == 1  # numpy would make numbers of them
        return np.asarray(pd.Series(values), dtype=object) if dates else values
    if isinstance(values, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return _of_pandas(values)
    if isinstance(values, list | tuple):
        return objects(values)
    for name in ("to_pylist", "to_list"):  # Arrow, polars
        if callable(read := getattr(values, name, None)):
            return _of_columnar(values, read)
    if hasattr(values, "__array__"):
        return np.asarray(values)  # it has one type already
    if isinstance(values, Iterable) and not isinstance(values, _NOT_A_COLUMN):
        return objects(list(values))
    raise TypeError(f"a {type(values).__name__} has no cells")


def objects(cells: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    """Make an array of Python objects, one a cell, also where cells are sequences."""
    return np.fromiter(cells, dtype=object, count=len(cells))


def columns_of(values: Any) -> list[NDArray[Any] | pd.Categorical]:
    """Return the columns of a table, or the one column that is given, each read by itself.

    Raises
    ------
    ValueError
        For more than two dimensions, or rows of several lengths.
    """
    if isinstance(values, pd.DataFrame):
        return [column_cells(values.iloc[:, place]) for place in range(values.shape[1])]
    if (table := table_of(values)) is not None:
        return columns_of(table)
    cells = column_cells(values)
    if isinstance(cells, pd.Categorical):
        return [cells]
    if cells.ndim == 1 and len(cells) and cells.dtype == object and _is_row(cells[0]):
        if {len(cell) if _is_row(cell) else -1 for cell in cells} != {len(cells[0])}:
            raise ValueError("rows of several lengths")
        return [objects([cell[place] for cell in cells]) for place in range(len(cells[0]))]
    if cells.ndim not in (1, 2):
        raise ValueError(f"{cells.ndim} dimensions")
    return [cells] if cells.ndim == 1 else list(cells.T)


def table_of(values: Any) -> pd.DataFrame | None:
    """Return a table of polars or Arrow as one of pandas, column by column; None for others."""
    read = getattr(values, "get_columns", None) or getattr(values, "itercolumns", None)
    names = getattr(values, "column_names", None) or getattr(values, "columns", None)
    if isinstance(values, pd.DataFrame) or read is None or names is None:
        return None
    cells = dict(zip(map(str, names), map(column_cells, read()), strict=True))
    if len(cells) < len(names):
        raise ValueError("'X' has several columns of one name; rename them.")
    return pd.DataFrame({n: pd.Series(c, dtype=c.dtype) for n, c in cells.items()})


def of_one_kind(cells: NDArray[Any]) -> NDArray[Any]:
    """Give Python objects the type that all of them have: text, truth values or numbers.

    Objects of several kinds, missing ones among them, stay objects. No value changes: whole numbers
    stay exact, and a text that numpy would shorten stays an object.
    """
    kinds = {_kind(cell) for cell in cells}
    if kinds == {"text"} and not any(cell.endswith("\0") for cell in cells):
        return cells.astype(str)
    if kinds == {"truth"}:
        return cells.astype(bool)
    if kinds == {"float"}:
        return cells.astype(np.float64)
    if kinds and kinds <= {"whole", "truth", "float"} and all(map(_fits_int64, cells)):
        return np.fromiter(map(int, cells), dtype=np.int64, count=len(cells))
    return cells


def _of_columnar(values: Any, read: Callable[[], list[Any]]) -> NDArray[Any]:
    """Read a column of Arrow or polars: as numpy has it if it declares numbers, none missing."""
    missing = getattr(values, "null_count", 0)
    declared = None
    encoded = _is_encoded(getattr(values, "type", None))
    if not encoded and not (missing() if callable(missing) else missing):
        with suppress(Exception):  # numpy lacks the type, such as whole numbers of 128 bits
            declared = np.asarray(values)
    if declared is not None and declared.ndim == 1 and declared.dtype.kind in "biuf":
        return declared
    with suppress(Exception):
        return objects(read())
    # Out here, so that no chain of exceptions quotes a cell.
    kind = getattr(values, "type", getattr(values, "dtype", ""))
    raise TypeError(
        f"A column of the type {kind} cannot be read cell by cell. Convert it to text, to whole "
        "numbers of 64 bits or to float64."
    )


def _is_encoded(kind: Any) -> bool:
    """Whether Arrow stores a column as a dictionary or runs: nulls among these are not counted."""
    kind = getattr(kind, "storage_type", kind)
    return hasattr(kind, "index_type") or hasattr(kind, "run_end_type")


def _of_pandas(values: Any) -> NDArray[Any] | pd.Categorical:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return pd.Categorical(values)
    if _is_encoded(getattr(values.dtype, "pyarrow_dtype", None)):
        array: Any = getattr(values, "array", values)
        return column_cells(array.__arrow_array__())
    if isinstance(values.dtype, np.dtype) and values.dtype.kind not in "mM":
        return np.asarray(values)
    # With a missing cell numpy's form of a nullable integer is a float.
    declared = values.dtype.kind in "biuf" and not values.isna().any()
    return np.asarray(values, dtype=None if declared else object)


def _fits_int64(number: Any) -> bool:
    return number == number and abs(number) < _INT64 and int(number) == number


def _is_row(cell: Any) -> bool:
    return isinstance(cell, list | tuple | np.ndarray | pd.Series)


def _kind(cell: Any) -> str:
    if isinstance(cell, str):
        return "text"
    if isinstance(cell, bool | np.bool_):
        return "truth"
    if isinstance(cell, int | np.integer):
        return "whole"
    return "float" if isinstance(cell, float | np.floating) else "other"
