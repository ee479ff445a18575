"""The file behind a ledger: several writers, sudden death, and files that are no ledger."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from skfairdp.exceptions import BudgetExceededError, LedgerError
from skfairdp.privacy import PrivacyLedger
from skfairdp.privacy.ledger import as_ledger, data_set_name
from skfairdp.privacy.ledger.store import PATIENCE, writing
from tests.privacy.ledger.statements import ledger_in, pure, spend, stated
from tests.processes import ROOT, in_one_worker, run_fresh

HAMMER = """
import sys
from skfairdp.exceptions import BudgetExceededError
from tests.privacy.ledger.statements import PrivacyLedger, pure
ledger = PrivacyLedger(sys.argv[1], "people", budget=(2.05, 0.0))
refused = 0
for _ in range(10):
    try:
        with ledger.charge(pure(0.1), activity="fit", estimator="Hammer"):
            pass
    except BudgetExceededError:
        refused += 1
print(refused)
"""

DIE = """
import os, signal, sys
from tests.privacy.ledger.statements import PrivacyLedger, stated
ledger = PrivacyLedger(sys.argv[1], "people")
ledger.reserve(stated(), activity="fit", estimator="Dying")
os.kill(os.getpid(), signal.SIGKILL)
"""


def started(script: str, ledger: PrivacyLedger) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, str(ledger.path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def ended(script: str, ledger: PrivacyLedger) -> int:
    return run_fresh(script, str(ledger.path)).returncode


@in_one_worker
@pytest.mark.slow
def test_processes_that_charge_at_once_lose_no_entry_and_keep_the_budget(tmp_path) -> None:
    # Basic composition of 0.1-pure releases is tight at delta = 0: 20 of 40 fit into 2.05.
    ledger = ledger_in(tmp_path)
    processes = [started(HAMMER, ledger) for _ in range(4)]
    refused = [int(process.communicate(timeout=600)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert len(ledger) == 20
    assert sum(refused) == 20
    assert sorted(entry.ordinal for entry in ledger.entries()) == list(range(1, 21))
    assert ledger.totals(delta=0.0)[0].epsilon <= 2.05


def test_threads_may_share_a_handle(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: spend(ledger, stated()), range(24)))
    assert len(ledger) == 24


@in_one_worker
def test_a_process_killed_between_reservation_and_commit_stays_charged(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    assert ended(DIE, ledger) == -signal.SIGKILL
    assert len(ledger) == 0
    (entry,) = ledger.entries()
    assert (entry.state, entry.guarantee) == ("reserved", stated())
    assert ledger.totals()[0].epsilon == stated().epsilon
    assert "1 reserved and not finished, charged alike" in ledger.summary()
    spend(ledger, stated())  # nobody is locked out
    assert len(ledger) == 1


def test_a_handle_is_a_path_and_a_name(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger("ledger.db", "people", budget=(5.0, 1e-5))
    spend(ledger, stated())
    monkeypatch.chdir("/")
    for other in (copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger)), copy.copy(ledger)):
        assert other == ledger
        assert hash(other) == hash(ledger)
        assert len(other) == 1
    assert set(vars(ledger)) == {"path", "data_set", "_budget"}
    assert as_ledger(tmp_path / "ledger.db") == ledger.on("default")
    assert ledger != ledger.on("default")


def test_an_empty_ledger_is_true_and_makes_no_file(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    assert ledger
    assert len(ledger) == 0
    assert ledger.totals() == ledger.entries() == ledger.data_sets == ()
    assert "the ledger is empty: nothing was charged" in ledger.summary()
    assert ledger.head == "0:"
    assert not ledger.path.exists()
    spend(ledger, stated())
    assert len(ledger) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]  # no draft is left


def test_a_disk_without_links_gets_a_ledger_too(tmp_path, monkeypatch) -> None:
    def without_links(*args: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr("skfairdp.privacy.ledger.store.os.link", without_links)
    ledger = ledger_in(tmp_path)
    spend(ledger, stated())
    assert len(ledger) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


def test_a_file_that_another_process_made_meanwhile_is_kept(tmp_path, monkeypatch) -> None:
    first, here = ledger_in(tmp_path), ledger_in(tmp_path)
    link = os.link

    def too_late(draft: Path, path: Path) -> None:
        monkeypatch.setattr("skfairdp.privacy.ledger.store.os.link", link)
        spend(first, stated())
        link(draft, path)

    monkeypatch.setattr("skfairdp.privacy.ledger.store.os.link", too_late)
    spend(here, stated())
    assert len(here) == 2


def test_a_missing_folder_is_named(tmp_path) -> None:
    with pytest.raises(LedgerError, match="folder must exist and be writable"):
        spend(PrivacyLedger(tmp_path / "nowhere" / "ledger.db"), stated())
    with pytest.raises(LedgerError, match="Cannot write the privacy ledger"):
        spend(PrivacyLedger(tmp_path), stated())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_is_refused_and_can_be_read(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, stated())
    ledger.path.chmod(0o400)
    with pytest.raises(LedgerError, match="Cannot write the privacy ledger"):
        spend(ledger, stated())
    assert len(ledger) == 1


def test_a_file_that_is_no_data_base_is_refused_and_left_alone(tmp_path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("These are my notes, and they are longer than a header. " * 10)
    before = path.read_bytes()
    for action in (lambda: spend(ledger_in(tmp_path), stated()), lambda: len(ledger_in(tmp_path))):
        with pytest.raises(LedgerError, match="not a readable privacy ledger"):
            action()
    assert path.read_bytes() == before


def test_another_data_base_is_refused_and_left_alone(tmp_path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE customers (name TEXT)")
    other.close()
    before = path.read_bytes()
    for action in (lambda: spend(ledger_in(tmp_path), stated()), lambda: len(ledger_in(tmp_path))):
        with pytest.raises(LedgerError, match="data base of another program"):
            action()
    assert path.read_bytes() == before


def test_a_ledger_of_another_version_is_refused(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, stated())
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(LedgerError, match="has version 7"):
        spend(ledger, stated())


@pytest.mark.parametrize(
    "content", [{}, {"guarantee": {}}, {"guarantee": {"epsilon": "many"}}, {"activity": b"".hex()}]
)
def test_an_entry_that_cannot_be_read_is_named(tmp_path, content) -> None:
    # As a later version might write it: the chain is whole.
    ledger = ledger_in(tmp_path, budget=(9.0, 1e-5))
    with writing(ledger.path) as store:
        store._append("people", "reserved", 1, content)
    for action in (ledger.totals, lambda: spend(ledger, stated())):
        with pytest.raises(LedgerError, match="entry 1 cannot be read"):
            action()


@pytest.mark.parametrize(
    "change", [{"epsilon": -1}, {"epsilon": "x"}, {"adjacency": "near"}, {"a": 1}]
)
def test_a_budget_that_cannot_be_read_is_named(tmp_path, change) -> None:
    ledger = ledger_in(tmp_path)
    with writing(ledger.path) as store:
        store._append("people", "budget", 0, {"epsilon": 1.0, "delta": 1e-5, **change})
    for action in (ledger.summary, lambda: spend(ledger, stated())):
        with pytest.raises(LedgerError, match="the budget of 'people' cannot be read"):
            action()


def test_half_a_file_is_refused(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    for _ in range(20):
        spend(ledger, stated())
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LedgerError, match="not a readable privacy ledger"):
        ledger.entries()


def test_an_entry_cannot_be_committed_twice_or_into_another_file(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    entry = ledger.reserve(stated(), activity="fit", estimator="Test")
    ledger.commit(entry)
    with pytest.raises(LedgerError, match="no open reservation number 1"):
        ledger.commit(entry)
    other = PrivacyLedger(tmp_path / "other.db", "people")
    with pytest.raises(LedgerError, match="was the file replaced"):
        other.commit(entry)
    assert not other.path.exists()
    theirs = other.reserve(stated(3.0), activity="fit", estimator="Test")
    with pytest.raises(LedgerError, match="no open reservation number 1"):
        other.commit(entry)  # of the same number, and not the same
    other.commit(theirs)


def test_what_is_given_back_is_not_charged_and_leaves_its_ordinal_free(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    first = ledger.reserve(stated(), activity="certify", estimator="Test")
    back = ledger.give_back(first)
    assert (back.state, back.committed_at) == ("returned", None)
    assert ledger.entries() == (back,)
    assert ledger.totals() == ()
    assert "1 that ended before a row was used, not charged" in ledger.summary()
    again = ledger.reserve(stated(), activity="certify", estimator="Test")
    assert (again.number, again.ordinal) == (2, 1)
    for end in (ledger.commit, ledger.give_back):
        with pytest.raises(LedgerError, match="no open reservation number 1"):
            end(first)
    ledger.commit(again)
    with pytest.raises(LedgerError, match="no open reservation number 2"):
        ledger.give_back(again)


def test_ordinals_of_what_counts_are_never_shared(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    first, second = (ledger.reserve(None, activity="certify", estimator="Test") for _ in range(2))
    ledger.give_back(first)
    third = ledger.reserve(None, activity="certify", estimator="Test")
    assert (second.ordinal, third.ordinal) == (2, 3)


def test_a_lock_that_the_disk_does_not_grant_is_named_and_nothing_is_charged(
    tmp_path, monkeypatch
) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, stated())
    connect = sqlite3.connect

    class Refused(sqlite3.Connection):
        def execute(self, query: str, *values: object) -> sqlite3.Cursor:
            if query.startswith("BEGIN IMMEDIATE"):
                raise sqlite3.OperationalError("locking protocol")
            return super().execute(query, *values)

    with monkeypatch.context() as network:
        network.setattr(
            "skfairdp.privacy.ledger.store.sqlite3.connect",
            lambda *args, **settings: connect(*args, factory=Refused, **settings),
        )
        with pytest.raises(LedgerError, match="Cannot write .*locking protocol"):
            spend(ledger, stated())
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": ""}, "'path' must name a file"),
        ({"path": 3}, "'path' must name a file"),
        ({"data_set": " "}, "'data_set' must be a name"),
        ({"data_set": 5}, "'data_set' must be a name"),
        ({"budget": 1.0}, r"a pair \(epsilon, delta\)"),
        ({"budget": (1.0, 1e-6, 2)}, r"a pair \(epsilon, delta\)"),
        ({"budget": ("a", "b")}, r"a pair \(epsilon, delta\)"),
        ({"budget": (0.0, 1e-6)}, "finite epsilon > 0"),
        ({"budget": (float("inf"), 1e-6)}, "finite epsilon > 0"),
        ({"budget": (float("nan"), 1e-6)}, "finite epsilon > 0"),
        ({"budget": (1.0, 1.0)}, r"delta in \[0, 1\)"),
        ({"budget": (1.0, 1e-6), "adjacency": "swap"}, "adjacency='swap' is not known"),
        ({"adjacency": "zero-out"}, "set 'budget' too"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        PrivacyLedger(**{"path": tmp_path / "ledger.db", **settings})


def test_unknown_activities_and_ledgers_are_named(tmp_path) -> None:
    with pytest.raises(ValueError, match="activity='look' is not known"):
        ledger_in(tmp_path).reserve(stated(), activity="look", estimator="Test")
    with pytest.raises(ValueError, match="must be None, a path or a PrivacyLedger"):
        as_ledger(3)  # type: ignore[arg-type]


def test_whoever_waits_for_the_lock_waits_long(tmp_path, monkeypatch) -> None:
    assert PATIENCE >= 60.0
    monkeypatch.setattr("skfairdp.privacy.ledger.store.PATIENCE", 0.01)
    ledger = ledger_in(tmp_path)
    spend(ledger, pure(0.1))
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other, other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked"):
            spend(ledger, pure(0.1))
        other.execute("ROLLBACK")
    other.close()


def test_a_refused_charge_leaves_no_trace(tmp_path) -> None:
    ledger = ledger_in(tmp_path, budget=(0.5, 0.0))
    with pytest.raises(BudgetExceededError):
        spend(ledger, pure(0.6))
    assert ledger.entries() == ()
    assert ledger.budget == (0.5, 0.0)


def test_a_keyed_name_depends_on_key_values_and_types() -> None:
    import pandas as pd

    key, other = b"k" * 32, b"l" * 32
    rows = [[1.0, 2.0], [3.0, 4.0]]
    name = data_set_name(rows, key)
    assert name == data_set_name(rows, key)
    different = [
        data_set_name(rows, other),
        data_set_name([[1.0, 2.0], [3.0, 5.0]], key),
        data_set_name([[1.0, 2.0]], key),
        data_set_name([[1, 2], [3, 4]], key),
        data_set_name(pd.DataFrame(rows, columns=["a", "b"]), key),
    ]
    assert len({name, *different}) == 6
    for short in (b"k" * 31, "k" * 32, b""):
        with pytest.raises(ValueError, match="32 random bytes"):
            data_set_name(rows, short)  # type: ignore[arg-type]
