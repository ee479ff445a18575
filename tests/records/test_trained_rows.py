"""Rows that a model was trained on are known again, whatever holds them."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import coo_array, csr_matrix
from sklearn.base import BaseEstimator

from skfairdp import FunctionalMechanismClassifier, PrivacyLedger
from skfairdp.records import given
from skfairdp.records.given import SeenRows, trained_on

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
    SeenRows.of(holds(TABLE)).remember_for(model)
    assert trained_on(model, holds(TABLE), lambda rows: rows)
    assert not trained_on(model, holds(TABLE + 1.0), lambda rows: rows)
    assert not trained_on(BaseEstimator(), holds(TABLE), lambda rows: rows)


def test_rows_of_which_no_digest_can_be_made_are_refused_before_a_charge(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(rows: object) -> bytes:
        raise TypeError("no cell of this type can be read")

    monkeypatch.setattr(given, "_digest", fails)
    ledger = PrivacyLedger(tmp_path / "spent.db")
    model = FunctionalMechanismClassifier((0.0, 60.0), ledger=ledger)
    with pytest.raises(TypeError, match="no cell"):
        model.fit(TABLE, np.arange(20) % 2)
    assert ledger.entries() == ()
    assert not hasattr(model, "receipt_")
