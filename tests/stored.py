"""Rows that pass for rows on disk, without a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skfairdp.records.stored_rows import StoredRows


class ArrayRows(StoredRows):
    """Rows of an array, which no reader sees as one; a test changes `state` to change them.

    `names`: of the columns; None: they have none.
    """

    def __init__(self, rows: np.ndarray, names: list[str] | None = None) -> None:
        self._rows, self.shape, self.dtype = rows, rows.shape, rows.dtype
        self._names = names
        self._first_state = self.state = 0

    def _take(self, places: np.ndarray, dtype: Any) -> np.ndarray:
        return self._rows[places].astype(dtype)

    def _as_given(self, rows: np.ndarray) -> Any:
        return rows if self._names is None else pd.DataFrame(rows, columns=self._names)

    def _state(self) -> int:
        return self.state
