"""Rows that lie on disk, or are kept as levels, give what the same rows in memory give."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from skfairdp import (
    DPAdditiveClassifier,
    DPAdditiveRegressor,
    PrivacyLedger,
    PrivateTableEncoder,
    certify,
)
from skfairdp.records.stored_rows import StoredRows
from tests.stored import ArrayRows

N = 900
NUMBERS = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
NUMBERS[::50, 1] = np.nan  # a level of its own
Y = (NUMBERS[:, 0] > 0) == (NUMBERS[:, 2] > 0)
SEEDED = {"random_state": 0, "reproducible_noise": True}
FAST = SEEDED | {"n_bins": 4, "max_epochs": 2, "progress": False}


@pytest.fixture
def read_in_parts(monkeypatch) -> None:
    """Few rows are read at a time."""
    monkeypatch.setattr(StoredRows, "cache_bytes", 1 << 14)


def weights(model) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in model.module_.parameters()])


def same(one, other) -> None:
    np.testing.assert_array_equal(weights(one), weights(other))
    assert vars(one).get("pairs_") == vars(other).get("pairs_")
    assert one.privacy_ == other.privacy_
    assert one.plan_ == other.plan_


MODELS = {
    "classifier": (DPAdditiveClassifier, {}),
    "pairs": (DPAdditiveClassifier, {"pairs": 2, "epsilon": 20.0}),
    "costs": (DPAdditiveClassifier, {"costs": {False: 1, True: 5}}),
    "numbers": (DPAdditiveRegressor, {"pairs": 2, "epsilon": 20.0, "outside_epsilon": 0.1}),
}


SLOW = [
    pytest.param(name, persons, marks=pytest.mark.slow)
    for name, persons in [
        ("classifier", True),
        ("pairs", False),
        ("costs", True),
        ("numbers", True),
    ]
]


@pytest.mark.parametrize(
    ("name", "persons"), [("costs", False), ("pairs", True), ("numbers", False), *SLOW]
)
def test_a_fit_on_rows_on_disk_is_that_of_rows_in_memory(name, persons, request) -> None:
    kind, options = MODELS[name]
    target = NUMBERS[:, 0] * NUMBERS[:, 2] if name == "numbers" else Y
    own = {"person_ids": np.arange(N) // 4} if persons else {}
    memory, stored = (kind((-2, 2), max_rows_per_person=2, **FAST, **options) for _ in range(2))
    memory.fit(NUMBERS, target, **own)
    request.getfixturevalue("read_in_parts")
    stored.fit(ArrayRows(NUMBERS), target, **own)
    same(stored, memory)
    assert persons or len(vars(memory).get("pairs_", "none")) > 0
    np.testing.assert_array_equal(stored.predict(ArrayRows(NUMBERS)), memory.predict(NUMBERS))
    explained = stored.explain(ArrayRows(NUMBERS)).to_numpy()
    np.testing.assert_array_equal(explained, memory.explain(NUMBERS).to_numpy())


def test_a_pipeline_of_an_encoder_reads_rows_from_disk(read_in_parts, tmp_path) -> None:
    """Nothing is declared: levels, weights, charges and certificates are those of a frame."""
    found = []
    for place, rows in enumerate((ArrayRows(NUMBERS), NUMBERS)):
        ledger = PrivacyLedger(tmp_path / f"{place}.db", "rows")
        encoder = PrivateTableEncoder(2.0, ledger=ledger, **SEEDED)
        steps = make_pipeline(encoder, DPAdditiveClassifier(ledger=ledger, **FAST)).fit(rows, Y)
        entries = [(entry.guarantee.epsilon, entry.activity) for entry in ledger.entries()]
        found.append((steps, steps.predict_proba(rows), entries))
    (stored, answers, charged), (memory, others, charges) = found
    assert stored[0].levels_ == memory[0].levels_
    same(stored[1], memory[1])
    np.testing.assert_array_equal(answers, others)
    assert charged == charges
    assert len(charges) == 2
    one, other = certify(stored), certify(memory)
    assert one.model_digest == other.model_digest


def test_rows_on_disk_need_declared_levels_and_as_many_columns() -> None:
    with pytest.raises(ValueError, match="is not a table of levels"):
        DPAdditiveClassifier(**FAST).fit(ArrayRows(NUMBERS), Y)
    model = DPAdditiveClassifier((-2, 2), **FAST).fit(ArrayRows(NUMBERS), Y)
    with pytest.raises(ValueError, match="2 features"):
        model.predict(ArrayRows(NUMBERS[:, :2]))
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        DPAdditiveClassifier((-2, 2), **FAST).fit(ArrayRows(NUMBERS[:0]), Y[:0])


def test_rows_that_change_while_they_are_read_are_refused() -> None:
    rows = ArrayRows(NUMBERS)
    rows.state = 1
    with pytest.raises(ValueError, match="was changed while it was read"):
        DPAdditiveClassifier((-2, 2), **FAST).fit(rows, Y)


def test_labels_come_with_parquet_rows(tmp_path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    from skfairdp.datasets import ParquetRows

    names = ["a", "b", "c"]
    columns = {name: pa.array(NUMBERS[:, j], from_pandas=True) for j, name in enumerate(names)}
    pq.write_table(pa.table(columns | {"y": Y}), tmp_path / "a.parquet", row_group_size=400)
    rows = ParquetRows(tmp_path, features=names, target="y")
    frame = pd.DataFrame(NUMBERS, columns=names)
    model = DPAdditiveClassifier((-2, 2), **FAST)
    memory = DPAdditiveClassifier((-2, 2), **FAST).fit(frame, Y)
    same(model.fit(rows), memory)
    np.testing.assert_array_equal(model.predict(rows), memory.predict(frame))
    encoder, in_memory = (PrivateTableEncoder(2.0, **SEEDED).fit(given) for given in (rows, frame))
    assert encoder.levels_ == in_memory.levels_
    pd.testing.assert_frame_equal(encoder.transform(rows), in_memory.transform(frame))
