from __future__ import annotations

import copy
import json
import math
import multiprocessing
import os
import pickle
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Barrier, BrokenBarrierError

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skfairdp import GapMonitor, PrivacyLedger
from skfairdp.exceptions import MonitorError, UnknownGroupError
from skfairdp.fairness import Notion, pairs
from skfairdp.monitoring.evidence import states_of
from skfairdp.monitoring.store import MemoryStore


def stream(n, rates, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(len(rates), size=n)
    return (rng.random(n) < np.array(rates)[codes]).astype(int), np.array(list("abcd"))[codes]


def facts(monitor):
    return (
        monitor.lower_bound_,
        monitor.upper_bound_,
        monitor.n_rows_,
        monitor.alarm_,
        monitor.cleared_,
        monitor.drift_,
    )


def test_equal_rates_are_cleared_and_unequal_ones_alarm():
    equal = GapMonitor(tolerance=0.1).update(*stream(6000, (0.3, 0.3, 0.3)))
    assert equal.cleared_
    assert not equal.alarm_
    assert equal.upper_bound_ < 0.1
    apart = GapMonitor(tolerance=0.1).update(*stream(6000, (0.3, 0.5, 0.3)))
    assert apart.alarm_
    assert apart.drift_
    assert not apart.cleared_
    assert 0.1 < apart.lower_bound_ < 0.2 < apart.upper_bound_
    assert "ALARM" in str(apart)
    assert "if it is constant" in str(apart)


def test_one_batch_or_many_give_the_same_state():
    decisions, groups = stream(900, (0.3, 0.4))
    whole = GapMonitor().update(decisions, groups)
    parts = GapMonitor(groups=["a", "b"])
    for part in np.array_split(np.arange(900), 7):
        parts.update(decisions[part], groups[part])
    first, second = (states_of(m._document)[0] for m in (whole, parts))
    for name in ("evidence", "pending", "side"):
        assert getattr(first, name) == getattr(second, name)
    assert facts(parts) == facts(whole)
    assert len(parts.history_) == 7


def test_a_drift_is_found_that_the_average_hides():
    calm, groups = stream(20_000, (0.3, 0.3))
    monitor = GapMonitor(tolerance=0.05).update(calm, groups)
    assert not monitor.drift_
    moved, groups = stream(3_000, (0.2, 0.45), seed=1)
    monitor.update(moved, groups)
    assert monitor.drift_
    assert not monitor.alarm_


def test_label_conditional_rates():
    rng = np.random.default_rng(0)
    groups, y = rng.choice(["a", "b"], 8000), rng.integers(2, size=8000)
    # Only among those whose label is 0 are groups treated differently.
    rate = np.where(y == 1, 0.7, np.where(groups == "a", 0.2, 0.5))
    decisions = (rng.random(8000) < rate).astype(int)
    assert GapMonitor("equal_opportunity", 0.1).update(decisions, groups, y).cleared_
    assert GapMonitor("equalized_odds", 0.1).update(decisions, groups, y).alarm_


def test_late_labels_wait_in_the_order_of_the_decisions():
    rng = np.random.default_rng(1)
    groups, y = rng.choice(["a", "b"], 600), rng.integers(2, size=600)
    decisions = rng.integers(2, size=600)
    at_once = GapMonitor("equal_opportunity", groups=["a", "b"]).update(decisions, groups, y)
    late = GapMonitor("equal_opportunity", groups=["a", "b"])
    late.update(decisions[:300], groups[:300], ids=range(300))
    assert (late.n_rows_, late.n_waiting_) == (0, 300)
    late.update(decisions[300:], groups[300:], y[300:])
    assert late.n_waiting_ == 600  # they come after rows whose labels are not known
    for part in np.array_split(rng.permutation(300), 5):
        late.add_labels(part, y[part])
    assert late.n_waiting_ == 0
    assert states_of(late._document)[0].evidence == states_of(at_once._document)[0].evidence


def test_rows_without_a_label_wait_and_hold_up_those_behind():
    monitor = GapMonitor("equal_opportunity", groups=["a", "b"])
    monitor.update([1, 0, 1], ["a", "b", "b"], [1, np.nan, 1], ids=["x", "y", "z"])
    assert (monitor.n_rows_, monitor.n_waiting_) == (1, 2)
    with pytest.raises(ValueError, match="no row that waits"):
        monitor.add_labels(["z"], [0])  # its label is known
    assert monitor.add_labels(["y"], [0]).n_rows_ == 3
    with pytest.raises(ValueError, match="ids"):
        monitor.update([1], ["a"], [np.nan])


def test_a_label_that_never_comes_takes_its_row_out():
    monitor = GapMonitor("equal_opportunity", groups=["a", "b"])
    monitor.update([1, 0, 1], ["a", "b", "b"], ids=["x", "y", "z"])
    monitor.add_labels(["y", "z"], [1, 1])
    assert monitor.n_waiting_ == 3
    monitor.add_labels(["x"], [np.nan])
    assert (monitor.n_waiting_, monitor.n_rows_) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        (([0, 2], ["a", "b"]), {}, ValueError, "0 and 1"),
        (([0.5, 1], ["a", "b"]), {}, ValueError, "0 and 1"),
        ((["no", "yes"], ["a", "b"]), {}, ValueError, "0 and 1"),
        (([0, np.nan], ["a", "b"]), {}, ValueError, "0 and 1"),
        (([0, 1], ["a", "c"]), {}, UnknownGroupError, "not among"),
        (([0, 1], ["a"]), {}, ValueError, "number of rows"),
        (([0, 1], ["a", "b"], [1]), {"notion": "equal_opportunity"}, ValueError, "rows"),
        (([0, 1], ["a", "b"]), {"notion": "equal_opportunity"}, ValueError, "ids"),
        (([0, 1], ["a", "a"]), {"groups": None}, ValueError, "2 groups"),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_bad_input_is_refused_and_nothing_is_lost(
    tmp_path, arguments, options, error, match, stored
):
    options = {"groups": ["a", "b"]} | options
    monitor = GapMonitor(**options, state=tmp_path / "m.db" if stored else None)
    if options["groups"] is not None:
        monitor.update([1, 0, 1], ["a", "b", "b"], [1, 1, 1])
    before = monitor.to_json()
    with pytest.raises(error, match=match):
        monitor.update(*arguments)
    assert monitor.to_json() == before


@pytest.mark.parametrize(
    "decisions",
    [
        pd.array([1, 0, 1], dtype="Int64"),
        pd.array([True, False, True], dtype="boolean"),
        np.array([1, 0, 1], dtype=object),
        np.array([True, False, True]),
    ],
)
def test_zeros_and_ones_of_any_type_are_decisions(decisions):
    plain = GapMonitor().update([1, 0, 1], ["a", "b", "b"])
    assert facts(GapMonitor().update(decisions, ["a", "b", "b"])) == facts(plain)
    with pytest.raises(ValueError, match="0 and 1"):
        GapMonitor().update(np.array(["1", "0", "1"], dtype=object), ["a", "b", "b"])


@pytest.mark.parametrize("y", [[1, None, 0], pd.array([True, None, False], dtype="boolean")])
def test_labels_may_be_missing_in_any_way(y):
    monitor = GapMonitor("equal_opportunity", groups=["a", "b"])
    assert monitor.update([1, 0, 1], ["a", "b", "b"], y, ids=range(3)).n_waiting_ == 2


def test_a_notion_of_ones_own_is_refused():
    own = Notion(
        name="own",
        rates="selection rates",
        meaning="The share is compared.",
        needs_labels=False,
        cells=lambda classes: [("", pairs(classes), pairs(classes, prediction=1))],
    )
    with pytest.raises(ValueError, match="'notion' must be a name.*'distribution_gap'.*'own'"):
        GapMonitor(own)


def test_groups_that_a_file_cannot_keep_are_refused():
    with pytest.raises(ValueError, match="texts, numbers or booleans"):
        GapMonitor().update([1, 0], pd.to_datetime(["2020-01-01", "2021-01-01"]))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_settings_may_be_numbers_of_numpy(kind):
    monitor = GapMonitor(tolerance=kind(0.25), confidence_level=kind(0.75), run_length=kind(500))
    monitor.update([1, 0, 1], ["a", "b", "b"])
    plain = GapMonitor(tolerance=0.25, confidence_level=0.75, run_length=500)
    plain.update([1, 0, 1], ["a", "b", "b"])
    assert facts(GapMonitor.from_json(monitor.to_json())) == facts(plain)


def test_a_monitor_can_be_pickled(tmp_path):
    for state in (None, tmp_path / "m.db"):
        monitor = GapMonitor(groups=["a", "b"], state=state).update([1, 0, 1], ["a", "b", "b"])
        copy = pickle.loads(pickle.dumps(monitor)).update([1], ["a"])
        assert copy.n_rows_ == 4
        assert monitor.refresh().n_rows_ == (3 if state is None else 4)


def test_a_batch_that_was_refused_may_be_sent_again(tmp_path):
    monitor = GapMonitor(groups=["a", "b"], state=tmp_path / "m.db")
    with pytest.raises(UnknownGroupError):
        monitor.update([1, 0], ["a", "c"], batch="monday")
    assert monitor.update([1, 0], ["a", "b"], batch="monday").n_rows_ == 2
    with pytest.raises(MonitorError, match="already"):
        GapMonitor(state=tmp_path / "m.db").update([1, 0], ["a", "b"], batch="monday")


def test_a_file_that_goes_or_changes_under_a_worker_is_told(tmp_path):
    path = tmp_path / "m.db"
    monitor = GapMonitor(groups=["a", "b"], state=path).update([1, 0], ["a", "b"])
    path.unlink()
    for act in (lambda: monitor.update([1], ["a"]), monitor.refresh, lambda: monitor.history_):
        with pytest.raises(MonitorError, match="no monitor's file"):
            act()
    assert not path.exists()
    GapMonitor(tolerance=0.2, groups=["x", "y"], state=path)
    for act in (lambda: monitor.update([1], ["a"]), monitor.refresh):
        with pytest.raises(MonitorError, match="with another tolerance and groups"):
            act()
    assert GapMonitor.from_file(path).n_rows_ == 0


def test_ids_are_told_apart():
    monitor = GapMonitor("equal_opportunity", groups=["a", "b"])
    with pytest.raises(ValueError, match="occur twice"):
        monitor.update([1, 0], ["a", "b"], ids=[1, 1])
    monitor.update([1, 0], ["a", "b"], ids=[1, 2])
    with pytest.raises(ValueError, match="wait already"):
        monitor.update([1], ["a"], ids=[2])
    with pytest.raises(ValueError, match="no row that waits"):
        monitor.add_labels([3], [1])
    with pytest.raises(ValueError, match="0, 1 or NaN"):
        monitor.add_labels([2], [5])
    with pytest.raises(ValueError, match="texts or whole numbers"):
        monitor.update([1], ["a"], ids=[2.5])
    assert monitor.n_waiting_ == 2


@pytest.mark.parametrize(
    "options",
    [
        {"tolerance": 0.0},
        {"confidence_level": 1.0},
        {"run_length": 0},
        {"run_length": math.inf},
        {"notion": "x"},
    ],
)
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(ValueError):
        GapMonitor(**options)


def test_rows_without_a_group_are_outside():
    monitor = GapMonitor(groups=["a", "b"]).update([1, 0, 1], ["a", None, "b"])
    assert monitor.n_rows_ == 2


@pytest.mark.parametrize("tolerance", [0.05, 0.2])
def test_as_many_rows_as_are_needed_clear(tolerance):
    needed = GapMonitor(tolerance=tolerance).certifiable({"a": 9, "b": 9}).rows_needed
    for share, clears in ((1.02, True), (0.9, False)):
        monitor = GapMonitor(tolerance=tolerance)
        rounds = int(needed * share) // 4  # of both groups' rows, as independent rates of one half
        monitor.update(np.tile([0, 0, 0, 1, 1, 0, 1, 1], rounds), np.tile(["a", "b"], 4 * rounds))
        assert monitor.cleared_ is clears
        found = monitor.certifiable([4 * rounds, 10**6])
        assert found.smallest == pytest.approx(monitor.upper_bound_)
        assert found.possible is clears
    assert GapMonitor(tolerance=tolerance).certifiable([needed, 10]).too_small == (1,)


def test_noise_and_the_number_of_batches_count_in_what_is_needed():
    def of(count_epsilon):
        return GapMonitor(tolerance=0.1, count_epsilon=count_epsilon, groups=["a", "b"])

    one, ten = (of(0.1).certifiable([2000, 1500], n_batches=n) for n in (1, 10))
    assert of(None).certifiable([2000, 1500]).smallest < one.smallest < ten.smallest
    monitor = of(1000.0)  # nearly no noise
    for _ in range(3):
        monitor.update(np.tile([0, 0, 1, 1], 250), np.tile(["a", "b"], 500))
    found = monitor.certifiable([1500, 1500], n_batches=3)
    assert found.smallest == pytest.approx(monitor.upper_bound_, abs=1e-6)
    assert of(0.1).certifiable([2000, 0]).smallest == 1.0
    with pytest.raises(ValueError, match="two groups"):
        monitor.certifiable([5])


def test_noisy_counts_that_compare_nothing_are_not_bought(tmp_path):
    ledger = PrivacyLedger(tmp_path / "spent.db", "decisions")
    monitor = GapMonitor(count_epsilon=0.5, ledger=ledger, groups=["a", "b"])
    before = monitor.to_json()
    with pytest.raises(ValueError, match="fewer than two groups"):
        monitor.update([1, 0, 1], ["a", "a", "a"])
    monitor.update([], [])
    assert (monitor.to_json(), len(ledger)) == (before, 0)
    odds = GapMonitor("equal_opportunity", count_epsilon=0.5, ledger=ledger, groups=["a", "b"])
    with pytest.raises(ValueError, match="fewer than two groups"):
        odds.update([1, 0, 1], ["a", "a", "b"], [1, 1, 0])
    assert len(ledger) == 0


def test_a_file_that_stays_locked_is_told(tmp_path, monkeypatch):
    path = tmp_path / "m.db"
    monitor = GapMonitor(groups=["a", "b"], state=path)
    monkeypatch.setattr("skfairdp.monitoring.store.PATIENCE", 0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MonitorError, match=r"cannot be used: database is locked"):
            monitor.update([1], ["a"])
    assert monitor.update([1], ["a"]).n_rows_ == 1


def test_a_file_opens_with_the_settings_it_has(tmp_path):
    path = tmp_path / "m.db"
    written = GapMonitor("equal_opportunity", 0.2, 0.9, state=path, run_length=50)
    written.update([1, 0, 1], ["a", "b", "b"], [1, 1, 1])
    path.chmod(0o400)
    found = GapMonitor.from_file(path)
    assert (found.to_json(), found.notion, found.run_length) == (
        written.to_json(),
        "equal_opportunity",
        50,
    )
    with pytest.raises(MonitorError, match="no monitor's file"):
        GapMonitor.from_file(tmp_path / "other.db")
    assert not (tmp_path / "other.db").exists()
    (tmp_path / "empty.db").touch()
    with pytest.raises(MonitorError, match="not a file of a monitor"):
        GapMonitor.from_file(tmp_path / "empty.db")


def test_state_survives_json_and_a_file(tmp_path):
    decisions, groups = stream(500, (0.3, 0.4))
    monitor = GapMonitor(state=tmp_path / "m.db").update(decisions, groups)
    again = GapMonitor(state=tmp_path / "m.db")
    copy = GapMonitor.from_json(monitor.to_json())
    assert facts(again) == facts(copy) == facts(monitor)
    assert again.groups_ == copy.groups_ == ("a", "b")
    later = stream(700, (0.3, 0.3), seed=1)
    for one in (again, copy):
        one.update(*later)
    assert again.to_json() != monitor.to_json()[:0]
    pd.testing.assert_frame_equal(
        again.history_.drop(columns="time"), copy.history_.drop(columns="time")
    )
    assert facts(monitor.refresh()) == facts(again)


def test_a_file_of_something_else_is_refused(tmp_path):
    GapMonitor(state=tmp_path / "m.db")
    with pytest.raises(MonitorError, match="tolerance"):
        GapMonitor(tolerance=0.2, state=tmp_path / "m.db")
    GapMonitor(state=tmp_path / "m.db").update([0, 1], ["a", "b"])
    with pytest.raises(MonitorError, match="groups"):
        GapMonitor(groups=["a", "c"], state=tmp_path / "m.db")
    (tmp_path / "text.db").write_text("no data base, but some words " * 40)
    with pytest.raises(MonitorError, match="cannot be used"):
        GapMonitor(state=tmp_path / "text.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other, other:
        other.execute("CREATE TABLE t (x)")
    with pytest.raises(MonitorError, match="not a file of a monitor"):
        GapMonitor(state=tmp_path / "other.db")
    cut = json.loads(GapMonitor(groups=["a", "b"]).to_json())
    cut["state"]["pairs"] = []
    for text in ('{"state": {}}', "null", "[]", json.dumps(cut)):
        with pytest.raises(MonitorError, match="not a state"):
            GapMonitor.from_json(text)


def _work(path, seed, batches):
    monitor = GapMonitor(groups=["a", "b"], state=path)
    for k in range(batches):
        monitor.update(*stream(200, (0.3, 0.4), seed=1000 * seed + k))
        time.sleep(0.001)  # else others wait long for the file


def test_several_workers_share_a_file(tmp_path):
    context = multiprocessing.get_context("fork")
    path = tmp_path / "m.db"
    GapMonitor(groups=["a", "b"], state=path)
    workers = [context.Process(target=_work, args=(path, seed, 5)) for seed in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    shared = GapMonitor(state=path)
    assert shared.n_rows_ == 3000
    assert shared.history_["rows"].tolist() == [200 * (i + 1) for i in range(15)]
    assert shared.history_["batch"].tolist() == list(range(1, 16))


def test_order_of_workers_decides_nothing_but_the_pairing(tmp_path):
    # Batches with as many rows of either group leave nobody without a partner.
    batches = [(stream(400, (0.3, 0.4), seed=s)[0], np.tile(["a", "b"], 200)) for s in range(4)]
    forward, backward = GapMonitor(groups=["a", "b"]), GapMonitor(groups=["a", "b"])
    for batch in batches:
        forward.update(*batch)
    for batch in batches[::-1]:
        backward.update(*batch)
    first, second = (states_of(m._document)[0].evidence for m in (forward, backward))
    assert first == second


def test_a_killed_worker_leaves_whole_batches(tmp_path):
    context = multiprocessing.get_context("fork")
    path = tmp_path / "m.db"
    GapMonitor(groups=["a", "b"], state=path)
    for delay in (0.02, 0.05, 0.11):
        worker = context.Process(target=_work, args=(path, 1, 10_000))
        worker.start()
        while GapMonitor.from_file(path).n_rows_ == 0:
            time.sleep(0.005)
        time.sleep(delay)
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        found = GapMonitor(state=path)
        assert found.n_rows_ % 200 == 0
        assert len(found.history_) * 200 == found.n_rows_
        pair = states_of(found._document)[0]
        used = 2 * sum(pair.evidence) + len(pair.pending)
        assert used == found.n_rows_
        rows = found.n_rows_
        found.update(*stream(200, (0.3, 0.4)))
        assert GapMonitor(state=path).n_rows_ == rows + 200


def test_a_clock_that_goes_back_changes_no_order(tmp_path, monkeypatch):
    from datetime import UTC, datetime

    from skfairdp.monitoring import monitor as module

    class Clock:
        years = iter((2030, 2020))

        @classmethod
        def now(cls, zone):
            return datetime(next(cls.years), 1, 1, tzinfo=UTC)

    monkeypatch.setattr(module, "datetime", Clock)
    watched = GapMonitor(groups=["a", "b"], state=tmp_path / "m.db")
    for seed in (0, 1):
        watched.update(*stream(100, (0.3, 0.4), seed=seed))
    assert watched.history_["rows"].tolist() == [100, 200]
    assert watched.history_["time"].str[:4].tolist() == ["2030", "2020"]


@pytest.mark.slow
def test_a_million_rows_at_once():
    monitor = GapMonitor().update(*stream(1_000_000, (0.3, 0.3)))
    assert monitor.cleared_
    assert monitor.upper_bound_ < 0.01


def test_noisy_counts_are_charged_and_still_find_a_gap(tmp_path):
    ledger = PrivacyLedger(tmp_path / "spent.db", "decisions")
    monitor = GapMonitor(tolerance=0.1, count_epsilon=0.5, ledger=ledger, groups=["a", "b"])
    for seed in range(6):
        monitor.update(*stream(1500, (0.2, 0.5), seed=seed))
    assert monitor.alarm_
    assert monitor.lower_bound_ < 0.3 < monitor.upper_bound_
    assert len(ledger) == 6
    assert 2.5 < ledger.totals()[0].epsilon <= 3.0 + 1e-9
    again = GapMonitor.from_json(monitor.to_json(), ledger=ledger)
    assert facts(again) == facts(monitor)
    private = GapMonitor("equal_opportunity", count_epsilon=1.0, groups=["a", "b"])
    with pytest.raises(ValueError, match="pass y"):
        private.update([1, 0], ["a", "b"], ids=[1, 2])
    assert private.update([1, 0, 1], ["a", "b", "stranger"], [1, 1, 1]).n_rows_ == 2
    with pytest.raises(ValueError, match="declare them"):
        GapMonitor(count_epsilon=1.0)


def test_nothing_is_released_where_the_budget_has_no_room(tmp_path):
    from skfairdp.exceptions import BudgetExceededError

    ledger = PrivacyLedger(tmp_path / "spent.db", "decisions", budget=(0.7, 1e-9))
    monitor = GapMonitor(count_epsilon=0.5, ledger=ledger, groups=["a", "b"])
    monitor.update(*stream(100, (0.2, 0.5)))
    before = monitor.to_json()
    with pytest.raises(BudgetExceededError):
        monitor.update(*stream(100, (0.2, 0.5)))
    assert monitor.to_json() == before


def test_plot_draws_bounds_and_events():
    monitor = GapMonitor(groups=["a", "b"])
    for seed in range(3):
        monitor.update(*stream(1000, (0.2, 0.5), seed=seed))
    axes = monitor.plot()
    assert axes.get_ylabel() == "largest gap"
    assert "alarm" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_threads_that_update_one_monitor_take_turns(monkeypatch):
    monitor, both_read, read = GapMonitor(groups=["a", "b"]), Barrier(2), MemoryStore.read

    def slowly(store):
        found = read(store)
        with suppress(BrokenBarrierError):
            both_read.wait(0.2)
        return found

    monkeypatch.setattr(MemoryStore, "read", slowly)
    batch = [0, 1] * 5, ["a", "b"] * 5
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(monitor.update, *batch) for _ in range(2)]:
            done.result()
    monkeypatch.undo()
    assert monitor.n_rows_ == 20
    assert monitor.history_["rows"].tolist() == [10, 20]
    for copied in (copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor))):
        assert copied.update(*batch).n_rows_ == 30
    assert monitor.n_rows_ == 20


def test_a_monitor_in_memory_of_an_earlier_version_goes_on():
    monitor = GapMonitor(groups=["a", "b"]).update([0, 1] * 5, ["a", "b"] * 5)
    store = MemoryStore.__new__(MemoryStore)
    earlier = {n: v for n, v in vars(monitor._store).items() if n in ("_text", "_history")}
    store.__setstate__(earlier)  # as pickle does with a store that had no lock
    monitor._store = store
    assert monitor.update([0, 1], ["a", "b"]).n_rows_ == 12


BOUNDED = {"notion": "distribution_gap", "target_bounds": (0.0, 10.0), "groups": ["a", "b"]}


def numbers(n, apart, seed=0):
    """Numbers that are uniform over half of the range, in group b by a share of it more."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    return 5.0 * rng.uniform(size=n) + 5.0 * apart * (group == "b"), group


def test_equal_distributions_are_cleared_and_others_alarm():
    equal = GapMonitor(tolerance=0.15, **BOUNDED).update(*numbers(6000, 0.0))
    assert equal.cleared_
    assert not equal.alarm_
    assert equal.upper_bound_ < 0.15
    apart = GapMonitor(tolerance=0.15, **BOUNDED).update(*numbers(6000, 0.3))
    assert apart.alarm_
    assert apart.drift_
    # The distance is .3 at all thresholds where both groups have numbers.
    assert 0.15 < apart.lower_bound_ < 0.3 < apart.upper_bound_
    where = "at any of 15 public numbers"
    assert str(apart).startswith(f"distribution_gap: over 6,000 rows the largest gap {where} is")


def test_a_threshold_is_watched_as_decisions_are():
    found, groups = numbers(1500, 0.2)
    at_five = GapMonitor(groups=["a", "b"]).update((found <= 5.0).astype(int), groups)
    whole = GapMonitor(**BOUNDED).update(found, groups)
    (one,), all_of_it = at_five._document["pairs"], whole._document["pairs"]
    assert len(all_of_it) == 15
    assert all_of_it[7].evidence == one.evidence
    assert whole.upper_bound_ >= at_five.upper_bound_


def test_files_and_batches_keep_what_is_known(tmp_path):
    found, groups = numbers(900, 0.1)
    whole = GapMonitor(**BOUNDED).update(found, groups)
    state = tmp_path / "state.db"
    for part in np.array_split(np.arange(900), 3):
        GapMonitor(state=state, **BOUNDED).update(found[part], groups[part])
    stored = GapMonitor.from_file(state)
    assert stored.target_bounds == (0.0, 10.0)
    again = GapMonitor.from_json(stored.to_json())
    for monitor in (stored, again):
        assert monitor.upper_bound_ == whole.upper_bound_
        assert monitor.update(found, groups).n_rows_ == 1800
    with pytest.raises(MonitorError, match="target_bounds"):
        GapMonitor(state=state, **BOUNDED | {"target_bounds": (0.0, 20.0)})


def test_noisy_counts_of_numbers_are_charged(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", "people")
    monitor = GapMonitor(tolerance=0.2, count_epsilon=0.5, ledger=ledger, **BOUNDED)
    found, groups = numbers(4000, 0.0)
    found[0] = np.nan  # of a private row no error says so
    monitor.update(found, groups)
    assert len(ledger.entries()) == 1
    assert monitor.upper_bound_ < 0.2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_bounds": None}, "needs 'target_bounds', two numbers"),
        ({"target_bounds": (10, 0)}, "needs 'target_bounds', two numbers"),
        ({"notion": "demographic_parity"}, "'target_bounds' has no meaning"),
        ({"notion": "mean_gap"}, "no monitor of notion='mean_gap'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GapMonitor(**BOUNDED | settings)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, "5"])
def test_what_is_no_number_is_refused_and_not_used(wrong):
    monitor = GapMonitor(**BOUNDED)
    with pytest.raises(ValueError, match="missing or infinite|not numbers"):
        monitor.update(np.array([1.0, wrong, 2.0], dtype=object), ["a", "b", "a"])
    assert monitor.n_rows_ == 0


@pytest.mark.slow
def test_false_alarms_at_any_look_are_rare_and_true_ones_are_not():
    """Fails by chance of 1e-6 where false alarms have a probability of .05."""
    runs, alarms, found = 12, 0, 0
    for seed in range(runs):
        # The distance is .2 at every threshold in the middle.
        rows, groups = numbers(1500, 0.2, seed)
        at_it, below = (GapMonitor(tolerance=t, **BOUNDED) for t in (0.2, 0.02))
        for part in np.array_split(np.arange(len(rows)), 3):
            at_it.update(rows[part], groups[part])
        alarms, found = alarms + at_it.alarm_, found + below.update(rows, groups).alarm_
    allowed = stats.binom.isf(1e-6, runs, 0.05)
    assert alarms <= allowed < found
