"""Audit with a fixed number of runs, by two Clopper-Pearson limits."""

from __future__ import annotations

import math

from scipy.stats import beta


def epsilon_shown(
    hits: int, n_with: int, alarms: int, n_without: int, *, delta: float = 0.0, error: float = 0.05
) -> float:
    """Epsilon that is above the true one with chance `error` at most.

    `hits`, `alarms`: runs that were guessed "with", of `n_with` runs with the record and
    `n_without` without it (Nasr et al., IEEE S&P 2021).
    """
    false_alarm = _upper_rate(alarms, n_without, error / 2)
    missed = _upper_rate(n_with - hits, n_with, error / 2)
    # 1 - missed <= e^eps false_alarm + delta, and with the worlds exchanged.
    ratios = (1 - missed - delta) / false_alarm, (1 - false_alarm - delta) / missed
    return math.log(max(1.0, *ratios))


def _upper_rate(events: int, trials: int, error: float) -> float:
    return 1.0 if events == trials else float(beta.isf(error, events + 1, trials - events))
