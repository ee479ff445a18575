"""Rows that a model was trained on are known again, whatever holds them."""

from __future__ import annotations

from collections import deque

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import coo_array, csr_matrix
from sklearn.base import BaseEstimator

from skfairdp.records.given import remember_rows, trained_on

TABLE = np.arange(60.0).reshape(20, 3)
CONTAINERS = {
    "array": np.asarray,
    "lists": np.ndarray.tolist,
    "deque": lambda rows: deque(rows.tolist()),
    "DataFrame": pd.DataFrame,
    "COO": coo_array,
    "CSR": csr_matrix,
    "Arrow": lambda rows: pa.table({name: rows[:, j] for j, name in enumerate("abc")}),
    "memoryview": memoryview,
}


@pytest.mark.parametrize("holds", CONTAINERS.values(), ids=CONTAINERS)
def test_rows_are_known_again_from_any_container_and_others_are_not(holds) -> None:
    model = BaseEstimator()
    remember_rows(model, holds(TABLE))
    assert trained_on(model, holds(TABLE), lambda rows: rows)
    assert not trained_on(model, holds(TABLE + 1.0), lambda rows: rows)
    assert not trained_on(BaseEstimator(), holds(TABLE), lambda rows: rows)
