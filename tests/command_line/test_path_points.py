"""Tests of the point of a path that a report uses: the largest gap shown in nine of ten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skfairdp.command_line.parsing import _parser
from skfairdp.command_line.path_points import largest_shown
from skfairdp.command_line.planning import Outlook
from skfairdp.command_line.request import Request
from skfairdp.command_line.table import People
from skfairdp.fairness.bounds.noisy_counts import NoisyCells, private_gap_upper_bound
from skfairdp.fairness.smallest_gap import showing
from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.fair_path.path import ReleasedPath, around


def asked(*more: str) -> Request:
    usual = ["--target", "y", "--positive", "1", "--sensitive", "g", "--epsilon", "1"]
    return Request.of(_parser().parse_args(["report", str(Path("t.csv")), *usual, *more]))


def people(n: int) -> People:
    groups = pd.Series(np.where(np.arange(n) % 3 == 0, "a", "b"), name="g")
    X = pd.DataFrame({"x": np.arange(n) % 7})
    y = np.arange(n) % 2
    return People(X, y, groups, None, (0, 1), 1, "")


class Path127:
    """A path with a gap that grows evenly from none to .3, without noise in its tables."""

    plan_ = None

    def __init__(self, n: float, std: float = 0.0) -> None:
        multipliers = around(0.9)
        side = len(multipliers) // 2
        sizes = np.array([[n / 6, n / 6], [n / 3, n / 3]])
        decided = np.stack([sizes / 2, sizes / 2], axis=-1)
        grown = np.linspace(0.0, 0.3, side) * n / 3
        changed = np.zeros((2, 1, 2, side))
        changed[0, 0, 0] = -grown  # fewer of the first group, the nearer to no constraint
        stds = np.full(side, std)
        rates = Rates.of("demographic_parity")
        self._path = ReleasedPath(
            rates, multipliers, decided, changed, np.zeros((2, side)), std, stds, stds,
            start=side, direction=rates.direction(decided.sum(axis=2)),
        )  # fmt: skip

    def _path_of(self, plan: Any) -> ReleasedPath:
        return self._path

    def at(self, tolerance: float) -> float:
        point, _ = self._path.choose(tolerance)
        return float(self._path.gaps[point])


@pytest.mark.parametrize("n", [3_000, 30_000, 300_000])
def test_more_rows_leave_more_room_and_never_more_than_the_tolerance(n: int) -> None:
    outlook = Outlook(asked("--tolerance", ".1"), people(n))
    gap: Any = largest_shown(Path127(0.7 * n), outlook)  # type: ignore[arg-type]
    planned = outlook.showing("demographic_parity")
    wanted = planned.largest_gap(spread=outlook.spread("demographic_parity"))
    assert gap == pytest.approx(max(wanted, 0.0), abs=0.004)
    noisy: Any = largest_shown(Path127(0.7 * n, std=n / 100), outlook)  # type: ignore[arg-type]
    assert noisy <= gap


def test_where_nothing_can_be_shown_the_start_is_kept() -> None:
    outlook = Outlook(asked("--tolerance", ".01"), people(600))
    assert largest_shown(Path127(600), outlook) == 0.0  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_chance_of_showing_is_that_of_counts_drawn_and_bounded(rate: float) -> None:
    """Bounds of 100 drawn hold-outs; 3.9 standard errors fail with a probability of 1e-4."""
    rng, sizes, tolerance, gap = np.random.default_rng(0), np.array([1_500, 3_000]), 0.08, 0.045
    shown, runs = 0, 100
    for _ in range(runs):
        hits = rng.binomial(sizes, [rate + gap, rate])
        noise = rng.geometric(1 - np.exp(-1.0), (2, 2, 2))
        noisy = np.stack([hits, sizes - hits]) + noise[0] - noise[1]
        one = np.array([1])
        cells = NoisyCells(noisy[:1], noisy[1:], one, one, None)
        shown += private_gap_upper_bound(cells, 1.0, confidence_level=0.95) <= tolerance
    planned = showing({"a": 1_500, "b": 3_000}, tolerance, rate=rate, count_epsilon=1.0)
    error = 3.9 * np.sqrt(0.25 / runs)
    assert abs(shown / runs - planned.chance(gap)) < error
    # A plan that forgets how far counts scatter is found out, where that matters.
    broken = replace(planned, deviation=planned.deviation / 4)
    assert rate < 0.5 or abs(shown / runs - broken.chance(gap)) > error
