"""Monitors of predicted numbers: distributions at public thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skfairdp import GapMonitor, PrivacyLedger
from skfairdp.exceptions import MonitorError

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
    where = "at any of 15 numbers of a public grid"
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
