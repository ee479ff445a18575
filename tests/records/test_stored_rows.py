"""Rows that are not in memory give what the same rows in memory give."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import coo_array, csr_array

from skfairdp import (
    DPFermiClassifier,
    DPSGDClassifier,
    DPSGDFClassifier,
    FairDPClassifier,
    FairPathClassifier,
    ImportanceSamplingDPSGDClassifier,
    LagrangianDualClassifier,
    PrivacyLedger,
    RateConstrainedClassifier,
    certify,
)
from skfairdp.datasets import ParquetRows
from skfairdp.engine.person_rows import means
from skfairdp.receipts import Charge
from skfairdp.records import sampling
from skfairdp.records.sampling import Batch, PersonRows
from skfairdp.records.stored_rows import StoredRows
from tests.inprocessing.rows import two_groups

X, Y, GROUPS = two_groups(900)
X = X.astype(np.float32)
NAMES = [f"x{j}" for j in range(X.shape[1])]
PLANNED = {"delta": 1e-5, "max_epochs": 2, "batch_size": 60, "random_state": 3}
GROUPED = [
    DPSGDFClassifier,
    FairDPClassifier,
    ImportanceSamplingDPSGDClassifier,
    RateConstrainedClassifier,
    DPFermiClassifier,
]
WITH_TABLES = [
    (FairDPClassifier, {"stop_tolerance": 0.1, "check_every": 1}),
    (DPFermiClassifier, {"notion": "equalized_odds"}),
    (FairPathClassifier, {"epsilon": 30.0, "tolerance": 0.9, "notion": "equalized_odds"}),
    (FairPathClassifier, {"epsilon": 30.0, "tolerance": 0.9, "threshold": 0.3}),
    (RateConstrainedClassifier, {"threshold": 0.3}),
]


def mapped(folder, rows=X):
    where = folder / "rows.bin"
    written = np.memmap(where, dtype=rows.dtype, mode="w+", shape=rows.shape)
    written[:] = rows
    written.flush()
    return np.memmap(where, dtype=rows.dtype, mode="r", shape=rows.shape)


def arrow_table(rows=X):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    columns = {name: rows[:, j] for j, name in enumerate(NAMES)}
    return pa.table(columns | {"y": Y[: len(rows)], "group": GROUPS[: len(rows)]})


def parquet(folder, rows=X, **options):
    """Two files in four row groups."""
    table = arrow_table(rows)
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    pq.write_table(table.slice(0, 500), folder / "a.parquet", row_group_size=200)
    pq.write_table(table.slice(500), folder / "b.parquet", row_group_size=300)
    return ParquetRows(folder, features=NAMES, target="y", sensitive="group", **options)


def weights(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.module_.parameters()])


def repeated(kind=DPSGDClassifier, **options):
    return kind(reproducible_noise=True, **(PLANNED | options))


@pytest.fixture(scope="module")
def in_memory():
    return repeated().fit(X, Y, sensitive_features=GROUPS)


@pytest.mark.parametrize("kind", ["memmap", "arrow", "parquet", "small cache"])
def test_batches_weights_and_answers_are_those_of_rows_in_memory(in_memory, tmp_path, kind):
    if kind == "memmap":
        rows, given = mapped(tmp_path), (Y,)
    elif kind == "arrow":
        columns = {"features": NAMES, "target": "y", "sensitive": "group"}
        rows, given = ParquetRows(arrow_table(), **columns), ()
    else:
        cache = {"cache_bytes": 4000} if kind == "small cache" else {}
        rows, given = parquet(tmp_path, **cache), ()
    model = repeated().fit(rows, *given)
    np.testing.assert_array_equal(weights(model), weights(in_memory))
    np.testing.assert_array_equal(model.predict_proba(rows), in_memory.predict_proba(X))
    np.testing.assert_array_equal(model.predict(rows), in_memory.predict(X))
    assert model.plan_ == in_memory.plan_


@pytest.mark.parametrize("kind", GROUPED)
def test_every_mechanism_of_steps_reads_them(tmp_path, kind):
    stored, memory = (repeated(kind, max_epochs=1) for _ in range(2))
    stored.fit(parquet(tmp_path))
    memory.fit(X, Y, sensitive_features=GROUPS)
    assert stored.groups_ == memory.groups_
    assert stored.plan_ == memory.plan_
    np.testing.assert_array_equal(weights(stored), weights(memory))


def test_sparse_rows_become_dense_a_batch_at_a_time(monkeypatch):
    monkeypatch.setattr(StoredRows, "cache_bytes", 4000)
    dense = np.where(np.abs(X) > 1, X, 0.0).astype(np.float64)
    sparse, seen = csr_array(dense), []
    toarray = csr_array.toarray
    monkeypatch.setattr(csr_array, "toarray", lambda rows: seen.append(rows.shape) or toarray(rows))
    ids = np.arange(len(X)) // 2
    for options in ({}, {"person_ids": ids, "sensitive_features": None}):
        given = {"sensitive_features": GROUPS} | options
        memory, stored = (repeated().fit(rows, Y, **given) for rows in (dense, sparse))
        assert stored.plan_ == memory.plan_
        assert stored.privacy_ == memory.privacy_
        np.testing.assert_array_equal(weights(stored), weights(memory))
        np.testing.assert_array_equal(stored.predict_proba(sparse), memory.predict_proba(dense))
    assert {columns for _, columns in seen} == {X.shape[1]}
    assert max(rows for rows, _ in seen) < 400  # 4,000 bytes and a batch
    # Twice the same cell adds up, in any format.
    rows, columns = np.nonzero(dense)
    halves = np.tile(dense[rows, columns] / 2, 2)
    twice = coo_array((halves, (np.tile(rows, 2), np.tile(columns, 2))), shape=X.shape)
    np.testing.assert_array_equal(
        weights(repeated().fit(twice, Y)), weights(repeated().fit(dense, Y))
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e30])
def test_bad_values_of_sparse_rows_are_refused_before_a_charge(tmp_path, value):
    ledger, bad = PrivacyLedger(tmp_path / "ledger.json"), csr_array(X)
    bad.data[-1] = value
    with pytest.raises(ValueError, match="contains NaN, infinity, missing"):
        DPSGDClassifier(ledger=ledger, **PLANNED).fit(bad, Y)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        DPSGDClassifier(ledger=ledger, **PLANNED).fit(coo_array(Y), Y)
    assert len(ledger.entries()) == 0


@pytest.mark.parametrize(("kind", "options"), WITH_TABLES)
def test_tables_count_all_rows_a_part_at_a_time(tmp_path, monkeypatch, kind, options):
    monkeypatch.setattr(StoredRows, "cache_bytes", 10_000)
    memory = repeated(kind, **options).fit(X, Y, sensitive_features=GROUPS)
    sources = [(csr_array(X), (Y,), {"sensitive_features": GROUPS}), (parquet(tmp_path), (), {})]
    for rows, labels, groups in sources[: 1 + (kind is not FairPathClassifier)]:
        stored = repeated(kind, **options).fit(rows, *labels, **groups)
        assert stored.plan_ == memory.plan_
        np.testing.assert_array_equal(weights(stored), weights(memory))
        for name in ("released_gaps_", "decided_", "changed_", "improved_", "direction_"):
            if hasattr(memory, name):
                np.testing.assert_array_equal(getattr(stored, name), getattr(memory, name))
        np.testing.assert_array_equal(stored.predict(rows), memory.predict(X))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (DPSGDClassifier, {}),
        (FairPathClassifier, {"tolerance": 0.9}),
        pytest.param(
            FairPathClassifier, {"tolerance": 0.9, "threshold": 0.3}, marks=pytest.mark.slow
        ),
        (RateConstrainedClassifier, {"threshold": 0.3}),
    ],
)
def test_persons_may_have_their_rows_on_disk(tmp_path, kind, options):
    persons = {"person_ids": [f"{group}{k % 400}" for k, group in enumerate(GROUPS)]}
    options = {"epsilon": 30.0, "max_rows_per_person": 2} | options
    memory = repeated(kind, **options).fit(X, Y, sensitive_features=GROUPS, **persons)
    stored = repeated(kind, **options).fit(parquet(tmp_path), **persons)
    assert stored.privacy_ == memory.privacy_
    np.testing.assert_array_equal(weights(stored), weights(memory))
    np.testing.assert_array_equal(stored.predict(parquet(tmp_path)), memory.predict(X))


def test_a_row_with_a_nan_is_none_of_its_person():
    of_three = PersonRows(np.array([2, 1, 3]), 3)
    batch = Batch(np.array([4, 9, 1, 2, 3, 5]), (2, 1), of_three)
    left = sampling._without(batch, np.array([1, 5]))
    assert left.rows.tolist() == [4, 9, 2, 3]
    assert left.sizes == (1, 1)  # who has no other row is in no sum
    found = means(left.persons, torch.tensor([[1.0], [3.0], [10.0], [20.0]]))
    assert found.ravel().tolist() == [2.0, 15.0]


@pytest.mark.filterwarnings("ignore:epsilon=inf")
def test_a_row_with_a_nan_is_in_no_table(tmp_path):
    bad = X.copy()
    bad[::7, 1] = np.nan
    options = {"epsilon": np.inf, "dataset_size": 900, "max_epochs": 1, "tolerance": 0.9}
    model = FairPathClassifier(**(PLANNED | options)).fit(parquet(tmp_path, bad))
    whole = np.isfinite(bad).all(axis=1)
    found = [[np.sum(whole & (g == GROUPS) & (label == Y)) for label in (0, 1)] for g in ("a", "b")]
    np.testing.assert_array_equal(model.decided_.sum(axis=2), found)


def test_labels_and_groups_may_be_declared(tmp_path):
    rows = parquet(tmp_path)
    options = {"classes": [0, 1], "group_sizes": {"b": 200, "a": 700}}
    stored = repeated(FairDPClassifier, **options).fit(rows)
    memory = repeated(FairDPClassifier, **options).fit(X, Y, sensitive_features=GROUPS)
    np.testing.assert_array_equal(weights(stored), weights(memory))
    np.testing.assert_array_equal(stored.predict(rows), memory.predict(X))


def test_a_certificate_is_that_of_rows_in_memory(tmp_path):
    rows = parquet(tmp_path)
    model = repeated(max_epochs=1).fit(rows)
    frame = pd.DataFrame(X, columns=NAMES)
    stored, memory = (
        certify(model, rows, holdout="public"),
        certify(model, frame, Y, sensitive_features=GROUPS, holdout="public"),
    )
    assert stored.fairness == memory.fairness
    assert stored.accuracy == memory.accuracy


def test_only_drawn_rows_are_kept_and_a_pass_serves_many_batches(tmp_path):
    rows, reads = parquet(tmp_path), []
    take = rows.take
    rows.take = lambda places, dtype=None: reads.append(places) or take(places, dtype)
    repeated().fit(rows)
    assert len(reads) == 1  # 30 batches of 60 rows
    assert len(reads[0]) < len(X)
    assert (np.diff(reads[0]) > 0).all()


def test_batches_may_be_empty(tmp_path, monkeypatch):
    monkeypatch.setattr(StoredRows, "cache_bytes", 1)  # a pass for every batch
    options = {"batch_size": 1, "max_epochs": 1, "delta": 1e-3}
    stored = repeated(**options).fit(mapped(tmp_path, X[:40]), Y[:40])
    np.testing.assert_array_equal(weights(stored), weights(repeated(**options).fit(X[:40], Y[:40])))


def test_what_reads_all_rows_at_once_refuses_them(tmp_path):
    rows = parquet(tmp_path)
    with pytest.raises(TypeError, match="in memory"):
        LagrangianDualClassifier().fit(rows)
    with pytest.raises(TypeError, match="in memory"):
        FairPathClassifier(protects="sensitive_features").fit(rows)
    model = LagrangianDualClassifier(delta=1e-5, max_epochs=1)
    model.fit(mapped(tmp_path), Y, sensitive_features=GROUPS)  # a mapped array is an array
    assert model.module_ is not None


def test_masks_and_slices_choose_rows_and_places_outside_are_refused():
    rows = ParquetRows(arrow_table(), features=NAMES)
    mask = np.arange(len(rows)) % 4 > 0
    whole = np.asarray(rows[np.arange(len(rows))])
    np.testing.assert_array_equal(np.asarray(rows[mask]), whole[mask])
    np.testing.assert_array_equal(np.asarray(rows[2:5]), whole[2:5])
    np.testing.assert_array_equal(np.asarray(rows[np.array([-3])]), whole[[-3]])
    with pytest.raises(IndexError):
        rows[np.array([len(rows)])]


def test_files_with_different_columns_are_refused(tmp_path):
    parquet(tmp_path)
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    table = arrow_table()
    pq.write_table(table.drop_columns(["x1"]), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"'x1' is float in 'a.parquet' and absent in 'c.parquet'"):
        ParquetRows(tmp_path, features=NAMES)
    with pytest.raises(ValueError, match="The column 'group' is string"):
        ParquetRows(tmp_path / "a.parquet", features=["group"])
    with pytest.raises(ValueError, match="no column 'nothing'"):
        ParquetRows(tmp_path / "a.parquet", features=["nothing"])


@pytest.mark.parametrize(
    ("wrong", "column"),
    [
        ({"features": [*NAMES, "y"]}, "'y' is named twice"),
        ({"features": [*NAMES, "x0"]}, "'x0' is named twice"),
        ({"sensitive": "y"}, "'y' is named twice"),
        ({"sensitive": ["group", "group"]}, "'group' is named twice"),
    ],
)
def test_a_column_that_is_named_twice_is_refused(wrong, column):
    with pytest.raises(ValueError, match=column):
        ParquetRows(arrow_table(), **({"features": NAMES, "target": "y"} | wrong))


def test_a_feature_may_be_sensitive():
    rows = ParquetRows(arrow_table(), features=NAMES, target="y", sensitive="x0")
    assert rows.shape == X.shape
    assert list(rows.sensitive_features) == X[:, 0].tolist()


@pytest.mark.parametrize("kind", ["missing", "huge", "mapped"])
def test_values_that_statistics_show_are_refused_before_a_charge(tmp_path, kind):
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    bad = X.copy()
    bad[700, 2] = 1e30 if kind == "huge" else np.nan
    rows = mapped(tmp_path, bad) if kind == "mapped" else None
    if rows is None and kind == "huge":
        rows = parquet(tmp_path, bad)
    elif rows is None:
        pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
        pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
        table = arrow_table(bad)
        missing = pa.array(bad[:, 2], from_pandas=True)
        pq.write_table(table.set_column(2, "x2", missing), tmp_path / "a.parquet")
        rows = ParquetRows(tmp_path, features=NAMES, target="y")
    with pytest.raises(ValueError, match="contains NaN, infinity, missing"):
        DPSGDClassifier(ledger=ledger, **PLANNED).fit(rows, Y if kind == "mapped" else None)
    assert len(ledger.entries()) == 0


@pytest.mark.parametrize("name", ["y", "sensitive_features"])
def test_labels_or_groups_beside_those_of_the_rows_are_refused_before_a_charge(tmp_path, name):
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    rows, others = parquet(tmp_path), {"y": 1 - Y, "sensitive_features": GROUPS[::-1]}[name]
    named = "'target'" if name == "y" else "'sensitive'"
    model = FairDPClassifier(ledger=ledger, **PLANNED)
    with pytest.raises(ValueError, match=f"'{name}' was given for .* in {named}"):
        model.fit(rows, **{name: others})
    assert len(ledger.entries()) == 0
    assert not hasattr(model, "privacy_")
    # The same again is no contradiction.
    fitted = model.fit(rows, rows.target, sensitive_features=rows.sensitive_features)
    with pytest.raises(ValueError, match=f"'{name}' was given for .* in {named}"):
        certify(fitted, rows, **{name: others}, count_epsilon=1.0)
    assert len(ledger.entries()) == 1


def test_identifiers_are_not_looked_for_on_disk(in_memory, tmp_path):
    with pytest.raises(ValueError, match="check_ids=True needs columns of a dense table in memory"):
        certify(in_memory, parquet(tmp_path), check_ids=True, holdout="public")


def test_a_row_with_a_nan_that_no_statistic_shows_is_as_if_not_drawn(in_memory, tmp_path):
    found = []
    for column in (1, 3):
        (folder := tmp_path / str(column)).mkdir()
        bad = X.copy()
        bad[::7, column] = np.nan
        found.append(weights(repeated().fit(parquet(folder, bad))))
    # Whatever else is in such a row.
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all()
    assert (found[0] != weights(in_memory)).any()


def test_a_file_that_changes_under_the_fit_ends_it_and_the_charge_stays(tmp_path, monkeypatch):
    rows = mapped(tmp_path)
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    model = DPSGDClassifier(ledger=ledger, **PLANNED)
    charged = Charge.__call__

    def then_write(charge, stated):
        charged(charge, stated)
        written = np.memmap(tmp_path / "rows.bin", dtype=X.dtype, mode="r+", shape=X.shape)
        written[:] = 0.0
        written.flush()

    monkeypatch.setattr(Charge, "__call__", then_write)
    with pytest.raises(ValueError, match="was changed while it was read"):
        model.fit(rows, Y)
    assert not hasattr(model, "module_")
    assert len(ledger.entries()) == 1


def test_files_that_were_written_anew_are_refused_before_a_charge(in_memory, tmp_path):
    """Labels are read when rows are opened: they would be paired with features of other people."""
    (tmp_path / "rows").mkdir()
    rows = parquet(tmp_path / "rows", X)
    parquet(tmp_path / "rows", X[::-1].copy())
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    with pytest.raises(ValueError, match="was changed while it was read"):
        DPSGDClassifier(ledger=ledger, **PLANNED).fit(rows)
    assert ledger.entries() == ()
    with pytest.raises(ValueError, match="was changed while it was read"):
        certify(in_memory, rows, holdout="public")
