"""Metrics of fairlearn on random cases, equal to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn.metrics import (
    demographic_parity_difference,
    equal_opportunity_difference,
    equalized_odds_difference,
    false_positive_rate,
    selection_rate,
    true_positive_rate,
)

from skfairdp.metrics import fairness_report, group_gap

# Names here, functions there.
GAPS = {
    "demographic_parity": demographic_parity_difference,
    "equal_opportunity": equal_opportunity_difference,
    "equalized_odds": equalized_odds_difference,
}


def cases(n: int):
    """Rows of two labels and two to five groups, each with both labels."""
    rng = np.random.default_rng(26)
    while n:
        size, groups = int(rng.integers(20, 400)), int(rng.integers(2, 6))
        group = rng.integers(0, groups, size)
        truth = rng.integers(0, 2, size)
        if all(set(truth[group == g]) == {0, 1} for g in range(groups)):
            n -= 1
            yield truth, (rng.random(size) < rng.random()).astype(int), group


def differences(ours) -> list[str]:
    found = []
    for number, (truth, guess, group) in enumerate(cases(40)):
        for notion, theirs in GAPS.items():
            gap = theirs(truth, guess, sensitive_features=group)
            if ours(truth, guess, group, notion) != gap:
                found.append(f"{notion} {number}")
    return found


@pytest.mark.slow
def test_gaps_equal_fairlearns_to_the_last_bit():
    def ours(truth, guess, group, notion):
        return group_gap(truth, guess, sensitive_features=group, notion=notion)

    assert differences(ours) == []


@pytest.mark.slow
def test_a_gap_that_takes_the_other_label_is_caught():
    def twin(truth, guess, group, notion):
        return group_gap(truth, guess, sensitive_features=group, notion=notion, pos_label=0)

    assert differences(twin)


@pytest.mark.slow
def test_rates_of_a_report_equal_fairlearns_to_the_last_bit():
    rates = {
        "selection_rate": selection_rate,
        "true_positive_rate": true_positive_rate,
        "false_positive_rate": false_positive_rate,
    }
    for truth, guess, group in cases(10):
        table = fairness_report(truth, guess, sensitive_features=group).to_frame()
        for name, rate in rates.items():
            if name in table:
                for g in sorted(set(group)):
                    theirs = rate(truth[group == g], guess[group == g])
                    assert table.loc[str(g), name] == theirs
        assert "selection_rate" in table
