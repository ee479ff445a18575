"""Simulate what docs/results/monitoring.md reports: false alarms, delays, coverage, drift.

Two groups, outcomes drawn independently, one row of either group in each pair. The monitor's
evidence is followed after every pair, so stopping when it is largest is included.
"""

from __future__ import annotations

import argparse
import itertools
import math

import numpy as np
from scipy import stats

from skfairdp import GapMonitor
from skfairdp.monitoring.evidence import STAKES, drift_statistics, pair_steps

TOLERANCE, ALPHA = 0.05, 0.05
LOOK = 50  # pairs between two looks of the tests of a fixed size


def differences(rates, streams, pairs, seed, change=None):
    """Differences of outcomes, an array of shape (streams, pairs)."""
    rng = np.random.default_rng(seed)
    first, second = (rng.random((streams, pairs)) < p for p in rates)
    if change is not None:
        at, after = change
        first[:, at:], second[:, at:] = (rng.random((streams, pairs - at)) < p for p in after)
    return first.astype(np.int8) - second.astype(np.int8)


def evidence(d, gap):
    """Logarithm of the evidence against "at most the gap", after each pair."""
    total = np.full(d.shape, -np.inf)
    for stake in STAKES:
        bet = stake / (1.0 + gap)
        table = np.log1p(np.array([-1.0, 0.0, 1.0]) * bet - gap * bet)
        np.logaddexp(total, np.cumsum(table[d + 1], axis=1), out=total)
    return total - math.log(len(STAKES))


def newton_steps(d, gap):
    """The same with one bet that follows online Newton steps, as Chugg and others have it."""
    wealth, bet = np.zeros(len(d)), np.zeros(len(d))
    curvature, path = np.ones(len(d)), np.empty(d.shape)
    for t in range(d.shape[1]):
        payoff = d[:, t] - gap
        wealth += np.log1p(bet * payoff)
        path[:, t] = wealth
        slope = payoff / (1.0 + bet * payoff)
        curvature += slope**2
        bet = np.clip(bet + 2.0 / (2.0 - math.log(3.0)) * slope / curvature, 0, 0.5 / (1.0 + gap))
    return path


def fixed_size_tests(d):
    """One-sided z-test of "at most the tolerance" at each look, as if it were the only one."""
    n = np.arange(1, d.shape[1] + 1)
    mean = np.cumsum(d, axis=1, dtype=float) / n
    spread = np.sqrt(np.maximum(np.cumsum(d**2, axis=1) / n - mean**2, 1e-9) / n)
    found = (mean - TOLERANCE) / spread > stats.norm.isf(ALPHA)
    looks = np.zeros(d.shape, dtype=bool)
    looks[:, LOOK - 1 :: LOOK] = found[:, LOOK - 1 :: LOOK]
    return looks


def both_directions(d):
    up, down = evidence(d, TOLERANCE), evidence(-d, TOLERANCE)
    return np.logaddexp(up, down) - math.log(2.0)


def first(alarms):
    """Pairs until the first alarm; infinite without one."""
    return np.where(alarms.any(axis=1), alarms.argmax(axis=1) + 1.0, np.inf)


def parts(streams):
    return [(seed, min(200, streams - seed * 200)) for seed in range(-(-streams // 200))]


def false_alarms(rates, streams, pairs):
    ours = newton = peeking = once = 0
    for seed, some in parts(streams):
        d = differences(rates, some, pairs, seed)
        ours += int((both_directions(d) >= -math.log(ALPHA)).any(axis=1).sum())
        newton += int((newton_steps(d, TOLERANCE) >= -math.log(ALPHA)).any(axis=1).sum())
        tests = fixed_size_tests(d)
        peeking += int(tests.any(axis=1).sum())
        once += int(tests[:, -1].sum())
    return [count / streams for count in (ours, newton, peeking, once)]


def delays(rates, streams, pairs):
    found = [[], [], []]
    for seed, some in parts(streams):
        d = differences(rates, some, pairs, 1000 + seed)
        found[0].append(first(both_directions(d) >= -math.log(ALPHA)))
        found[1].append(first(newton_steps(d, TOLERANCE) >= -math.log(ALPHA)))
        found[2].append(first(fixed_size_tests(d)))
    return [float(np.median(np.concatenate(column))) for column in found]


def misses(rates, streams, pairs):
    """Streams in which a bound lies on the wrong side of the gap at some time."""
    gap = rates[0] - rates[1]
    upper = lower = 0
    for seed, some in parts(streams):
        d = differences(rates, some, pairs, 2000 + seed)
        # Evidence against "the gap is that large or more" once it is at its true value.
        upper += int((evidence(-d, -gap) >= -math.log(ALPHA)).any(axis=1).sum())
        both = np.logaddexp(evidence(d, gap), evidence(-d, gap)) - math.log(2.0)
        lower += int((both >= -math.log(ALPHA)).any(axis=1).sum())
    return upper / streams, lower / streams


def clearances(rates, streams, tolerance):
    """Rows of each group that are said to be needed, and pairs until streams are cleared."""
    needed = GapMonitor(tolerance=tolerance).certifiable([1, 1], rate=rates[0]).rows_needed
    d = differences(rates, streams, 6 * needed, 4000)
    shown = [evidence(side, -tolerance) >= -math.log(ALPHA) for side in (d, -d)]
    return needed, np.maximum(first(shown[0]), first(shown[1]))


def run_lengths(rates, streams, pairs, run_length, change=None):
    """Pairs until drift is found in each stream."""
    found = []
    for d in differences(rates, streams, pairs, 3000, change):
        state = np.full((2, len(STAKES)), -np.inf)
        until = np.inf
        for start in range(0, pairs, 100):
            state, peak = drift_statistics(state, pair_steps(d[start : start + 100], TOLERANCE))
            if peak >= math.log(run_length):
                until = start + 100.0
                break
        found.append(until)
    return np.array(found)


def group_run_lengths(rates, streams, rows, run_length):
    """Rows of each group until drift is found in any pair of groups."""
    found = np.full(streams, np.inf)
    pairs = list(itertools.combinations(range(len(rates)), 2))
    for stream in range(streams):
        hit = (np.random.default_rng(stream).random((rows, len(rates))) < rates).astype(np.int8)
        for k, m in pairs:
            state = np.full((2, len(STAKES)), -np.inf)
            for start in range(0, int(min(rows, found[stream])), 200):
                part = slice(start, start + 200)
                steps = pair_steps(hit[part, k] - hit[part, m], TOLERANCE)
                state, peak = drift_statistics(state, steps)
                if peak >= math.log(run_length * len(pairs)):
                    found[stream] = min(found[stream], start + 200.0)
                    break
    return found


def row(rates, cells):
    print(f"| {rates[0]:g} / {rates[1]:g} | " + " | ".join(cells) + " |")


def print_false_alarms(streams, pairs):
    print("| rates | monitor | Newton steps | test that peeks | one test at the end |")
    print("|---|---|---|---|---|")
    for rates in ((0.3, 0.25), (0.06, 0.01), (0.9, 0.85)):
        row(rates, [f"{share:.1%}" for share in false_alarms(rates, streams, pairs)])


def print_delays(streams, pairs):
    print("| rates | monitor | Newton steps | test that peeks |")
    print("|---|---|---|---|")
    for rates in ((0.35, 0.25), (0.4, 0.25), (0.5, 0.25), (0.11, 0.01)):
        row(rates, [f"{n:,.0f}" for n in delays(rates, streams // 5, 2 * pairs)])


def print_misses(streams, pairs):
    print("| rates | upper bound fails | lower bound fails |")
    print("|---|---|---|")
    for rates in ((0.3, 0.3), (0.3, 0.2), (0.05, 0.02)):
        row(rates, [f"{share:.1%}" for share in misses(rates, streams, pairs)])


def print_clearances(streams, pairs):
    print("| tolerance, rates | rows needed | cleared: median | nine of ten |")
    print("|---|---|---|---|")
    for tolerance in (0.05, 0.1):
        for rate in (0.5, 0.3, 0.05):
            needed, found = clearances((rate, rate), streams // 10, tolerance)
            median, most = np.quantile(found, [0.5, 0.9])
            print(f"| {tolerance:g}, {rate:g} | {needed:,} | {median:,.0f} | {most:,.0f} |")


def print_drift(streams, pairs):
    false = run_lengths((0.3, 0.25), streams // 20, 4 * pairs, 1_000)
    print(
        f"Run length 1,000, gap at the tolerance: a false drift after "
        f"{np.minimum(false, 4 * pairs).mean():,.0f} pairs on average (at least: "
        f"{np.isinf(false).mean():.0%} of the streams had none in {4 * pairs:,})"
    )
    for rates in ((0.3, 0.25, 0.25), (0.3, 0.25, 0.3, 0.25, 0.3)):
        found = group_run_lengths(rates, streams // 50, 12_000, 1_000)
        print(
            f"The same with {len(rates)} groups: after {np.minimum(found, 12_000).mean():,.0f} "
            f"rows of each on average ({np.isinf(found).mean():.0%} had none in 12,000)"
        )
    after = run_lengths((0.3, 0.3), streams // 20, 12_000, 100_000, (10_000, (0.4, 0.25)))
    print(
        f"Run length 100,000, from 0.3 / 0.3 to 0.4 / 0.25 after 10,000 pairs: found after "
        f"{np.median(after) - 10_000:,.0f} more (median), before the change in "
        f"{(after <= 10_000).mean():.0%}"
    )


TABLES = {
    "false alarms": print_false_alarms,
    "delays": print_delays,
    "coverage": print_misses,
    "clearance": print_clearances,
    "drift": print_drift,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=5000, help="of rows, in each stream")
    parser.add_argument("--table", choices=tuple(TABLES), help="only this one")
    given = parser.parse_args()
    print(f"{given.streams} streams of {2 * given.pairs} rows, tolerance {TOLERANCE}, 95 %")
    for name, table in TABLES.items():
        if given.table in (None, name):
            print(f"\n{name}\n")
            table(given.streams, given.pairs)


if __name__ == "__main__":
    main()
