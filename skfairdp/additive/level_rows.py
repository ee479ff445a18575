"""Training rows of an additive model as levels, one byte or two a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skfairdp.additive.design import Design
from skfairdp.preprocessing.levels import DENSE
from skfairdp.records.stored_rows import StoredRows


class LevelRows(StoredRows):
    """Rows of a table of levels, whose inputs of the net are made a few rows at a time.

    Inputs are those of `Design.rows`, to the last bit.
    """

    from_memory = True

    def __init__(self, design: Design, table: pd.DataFrame) -> None:
        self._design = design
        self._levels = list(design.codes(table))
        self.shape, self.dtype = (len(table), design.n_inputs), np.dtype(np.float32)
        self._first_state = None

    def _take(self, places: NDArray[np.integer], dtype: Any) -> NDArray[Any]:
        inputs = self._design.inputs([levels[places] for levels in self._levels])
        return inputs.astype(dtype, copy=False)

    def _state(self) -> None:
        """Return nothing: the levels are a copy, which nobody writes to."""

    def _within(self) -> bool:
        """Whether all values are numbers of a size: all are 0 or that of the design."""
        return True


def training_rows(design: Design, table: pd.DataFrame) -> NDArray[np.float32] | LevelRows:
    """Inputs of the net for each row; where they take much memory, made when they are read."""
    if len(table) * design.n_inputs < DENSE:
        return design.rows(table)
    return LevelRows(design, table)
