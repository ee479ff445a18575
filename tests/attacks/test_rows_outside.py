"""Rows that are no part of the table: of no declared group or label, or outside of its memory.

The attack: of rows that are read in parts, all but one are of no declared group. Without that one
the codes of the others, all -1, were kept without a sign, and all of them were counted.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse import csr_array
from sklearn.base import clone

from skfairdp import (
    DPFermiClassifier,
    DPSGDClassifier,
    FairDPClassifier,
    FairPathClassifier,
    PrivacyLedger,
    certify,
)
from skfairdp.engine.modules import MLP
from skfairdp.engine.run import rows_of
from skfairdp.records.stored_rows import SparseRows

N = 60
X = np.random.default_rng(0).normal(size=(N, 2))
Y = np.arange(N) % 2
OTHERS = np.repeat("c", N)
ONCE = {"max_epochs": 2, "batch_size": 30, "random_state": 0, "reproducible_noise": True}
SIZES = {"group_sizes": {"a": N // 2, "b": N // 2}, "classes": [0, 1]}


@pytest.mark.parametrize(
    ("kind", "settings", "names"),
    [
        (FairPathClassifier, {"groups": ["a", "b"], "dataset_size": N}, ["decided_", "changed_"]),
        (DPFermiClassifier, SIZES | {"notion": "equalized_odds"}, ["dual_"]),
        (FairDPClassifier, SIZES | {"stop_tolerance": 0.1, "check_every": 1}, ["released_gaps_"]),
    ],
)
@pytest.mark.filterwarnings("ignore::skfairdp.exceptions.FairnessWarning")
@pytest.mark.parametrize("inside", [0, 1])
def test_they_are_not_counted_whoever_is_beside_them(kind, settings, names, inside):
    groups = OTHERS.copy()
    groups[:inside] = "a"
    models = [kind(**ONCE, **settings, delta=1e-3) for _ in range(2)]
    memory, stored = (
        model.fit(rows, Y, sensitive_features=groups)
        for model, rows in zip(models, (X, csr_array(X)), strict=True)
    )
    for name in names:
        np.testing.assert_array_equal(getattr(stored, name), getattr(memory, name))


@pytest.mark.parametrize("stored", [None, SparseRows(csr_array(np.eye(2)))])
@pytest.mark.parametrize("cells", [[-1, -1], [-1, 0], [-1, 127], [-1, 128], [0, 40_000]])
def test_codes_keep_their_sign_in_few_bytes(cells, stored):
    labels = np.zeros(2, dtype=int)
    read: Any = SimpleNamespace(X=np.eye(2), labels=labels, persons=None, stored=stored)
    found = rows_of(read, np.array(cells), MLP(2, 1, ()), "logit")
    assert found.codes.tolist() == cells
    assert found.codes.itemsize <= 4


def malformed(kind: str) -> Any:
    """A sparse table, one entry of which lies in another row's memory."""
    dense = np.random.default_rng(0).normal(size=(40, 4))
    table = getattr(scipy.sparse, f"{kind.split()[0]}_array")(dense)
    if kind == "coo":
        table.coords[1][2] = 7
    elif kind == "lil":
        table.rows[0][0] = 7
    elif kind == "lil short":  # everybody after this row would get values of another one
        table.data[0].pop()
    elif kind == "csr pointers":
        table.indptr[2] = 1
    else:
        table.indices[3] = -1 if kind == "csr below" else 70
    return table


@pytest.mark.parametrize(
    "kind", ["csr", "csr below", "csr pointers", "csc", "bsr", "coo", "lil", "lil short"]
)
def test_sparse_rows_with_entries_outside_of_the_table_are_refused(kind: str, tmp_path) -> None:
    """scipy's constructor takes them, and would write them over other people's rows."""
    y, groups = np.arange(40) % 2, np.repeat(["a", "b"], 20)
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    model = DPSGDClassifier(max_epochs=1, delta=1e-3, progress=False).fit(
        np.random.default_rng(1).normal(size=(40, 4)), y
    )
    charging = DPSGDClassifier(max_epochs=1, delta=1e-3, progress=False, ledger=ledger).fit(
        np.random.default_rng(1).normal(size=(40, 4)), y
    )
    before = ledger.entries()
    for ask in (
        lambda: clone(model).set_params(ledger=ledger).fit(malformed(kind), y),
        lambda: model.predict(malformed(kind)),
        lambda: certify(charging, malformed(kind), y, sensitive_features=groups, count_epsilon=1.0),
    ):
        with pytest.raises(ValueError, match="entries outside of its shape"):
            ask()
    assert ledger.entries() == before
