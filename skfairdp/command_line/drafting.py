"""A schema to be filled in, from names and types of columns."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pandas as pd

from skfairdp.command_line.files import read_rows
from skfairdp.preprocessing.cells import looks_like_an_identifier


def draft(arguments: argparse.Namespace) -> int:
    """Print what is still to be said of each column.

    Result: 0.
    """
    rows = read_rows(arguments.data)
    columns = {name: _facts(name, rows.dtypes[name]) for name in rows.columns}
    print(json.dumps({"columns": columns}, indent=2, ensure_ascii=False))
    return 0


def _facts(name: str, dtype: Any) -> dict[str, Any]:
    if looks_like_an_identifier(name):
        return {"drop": True}
    if pd.api.types.is_bool_dtype(dtype):
        return {"categories": [False, True]}
    return {"bounds": [None, None]} if pd.api.types.is_numeric_dtype(dtype) else {"categories": []}
