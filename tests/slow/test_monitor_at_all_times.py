"""Over 2,000 streams of 10,000 rows: false alarms at any time, and what a test that peeks does.

With a true probability of .05, more than 160 of 2,000 come with a probability below 1e-8.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from skfairdp import GapMonitor
from skfairdp.monitoring.evidence import STAKES

pytestmark = pytest.mark.slow

STREAMS, PAIRS, TOLERANCE, ALPHA = 2000, 5000, 0.05, 0.05
TOO_MANY = int(stats.binom.isf(1e-8, STREAMS, ALPHA))


def streams(rates, seed, some=200):
    rng = np.random.default_rng(seed)
    first, second = (rng.random((some, PAIRS)) < p for p in rates)
    return first.astype(np.int8) - second.astype(np.int8)


def against_at_most(d, gap):
    """Evidence after each pair, by products instead of counts."""
    total = np.full(d.shape, -np.inf)
    for stake in STAKES:
        bets = stake / (1.0 + gap) * (np.array([-1.0, 0.0, 1.0]) - gap)
        np.logaddexp(total, np.cumsum(np.log1p(bets)[d + 1], axis=1), out=total)
    return total - math.log(len(STAKES))


@pytest.mark.parametrize("rates", [(0.3, 0.25), (0.06, 0.01)])
def test_false_alarms_at_any_time(rates):
    alarms = peeks = 0
    n = np.arange(1, PAIRS + 1)
    for seed in range(STREAMS // 200):
        d = streams(rates, seed)
        both = np.logaddexp(against_at_most(d, TOLERANCE), against_at_most(-d, TOLERANCE))
        alarms += int((both - math.log(2) >= -math.log(ALPHA)).any(axis=1).sum())
        mean = np.cumsum(d, axis=1) / n
        spread = np.sqrt(np.maximum(np.cumsum(d**2, axis=1) / n - mean**2, 1e-9) / n)
        rejected = (mean - TOLERANCE) / spread > stats.norm.isf(ALPHA)
        peeks += int(rejected[:, 49::50].any(axis=1).sum())
    assert alarms < TOO_MANY
    # The twin: a test of a fixed size, looked at a hundred times.
    assert peeks > 0.15 * STREAMS


@pytest.mark.parametrize("rates", [(0.3, 0.3), (0.3, 0.2)])
def test_bounds_hold_at_all_times(rates):
    gap = rates[0] - rates[1]
    upper = lower = 0
    for seed in range(STREAMS // 200):
        d = streams(rates, 100 + seed)
        upper += int((against_at_most(-d, -gap) >= -math.log(ALPHA)).any(axis=1).sum())
        both = np.logaddexp(against_at_most(d, gap), against_at_most(-d, gap)) - math.log(2)
        lower += int((both >= -math.log(ALPHA)).any(axis=1).sum())
    assert max(upper, lower) < TOO_MANY


def test_the_monitor_is_what_was_simulated():
    rng = np.random.default_rng(5)
    first, second = (rng.random(PAIRS) < p for p in (0.42, 0.3))
    monitor = GapMonitor(tolerance=TOLERANCE, groups=["a", "b"])
    groups = np.tile(["a", "b"], 50)
    for start in range(0, PAIRS, 50):
        part = slice(start, start + 50)
        monitor.update(np.stack([first[part], second[part]], axis=1).ravel(), groups)
    d = (first.astype(np.int8) - second.astype(np.int8))[np.newaxis]
    both = np.logaddexp(against_at_most(d, TOLERANCE), against_at_most(-d, TOLERANCE))
    alarmed = both[0, 49::50] - math.log(2) >= -math.log(ALPHA)
    found = monitor.history_["alarm"].to_numpy()
    assert np.array_equal(found, np.logical_or.accumulate(alarmed))
    assert found.any()


def test_noisy_counts_give_no_more_false_alarms():
    alarms, runs = 0, 60
    rng = np.random.default_rng(0)
    for _ in range(runs):
        monitor = GapMonitor(tolerance=0.1, count_epsilon=0.5, groups=["a", "b"])
        for _ in range(8):
            groups = np.repeat(["a", "b"], 40)
            monitor.update(rng.random(80) < np.where(groups == "a", 0.4, 0.3), groups)
        alarms += monitor.alarm_
    assert alarms <= stats.binom.isf(1e-8, runs, ALPHA)
