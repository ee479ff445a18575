"""The id of the person that a row is about, which is not a feature."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd


def without_ids(X: Any, id_column: Hashable | None) -> tuple[Any, Any]:
    """Take the column of ids out of a table.

    `X` (n, p): rows. `id_column`: label of the column in a DataFrame, position in anything else;
    None: there is none. Result `features`: the other columns; `ids` (n,).
    """
    if id_column is None:
        return X, None
    if isinstance(X, pd.DataFrame):
        if list(X.columns).count(id_column) != 1:
            raise ValueError(
                f"'id_column' is {id_column!r}, and X has {list(X.columns).count(id_column)} "
                "columns of that name; it must have exactly one."
            )
        return X.drop(columns=[id_column]), X[id_column].to_numpy(dtype=object)
    table = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    whole = isinstance(id_column, int | np.integer) and not isinstance(id_column, bool)
    width = table.shape[1] if table.ndim == 2 else 0
    if not (whole and -width <= id_column < width):  # type: ignore[operator]
        raise ValueError(
            f"'id_column' is {id_column!r}; for an X that is not a DataFrame give the position of "
            f"a column, an integer below {width}."
        )
    place = int(id_column)  # type: ignore[call-overload]
    return np.delete(table, place, axis=1), table[:, place]
