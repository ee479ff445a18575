from __future__ import annotations

import numpy as np
import pytest
from fairlearn.metrics import (
    demographic_parity_difference,
    equal_opportunity_difference,
    equalized_odds_difference,
)

from skfairdp.fairness.bounds.rate_gaps import gap_estimate
from skfairdp.fairness.notions import NOTIONS, get_notion, get_notions


def table_of(group, label, prediction, shape):
    table = np.zeros(shape, dtype=int)
    np.add.at(table, (group, label, prediction), 1)
    return table


def estimate(notion, table, classes, **kwargs):
    strata = get_notion(notion).strata(classes, **kwargs)
    counts = [stratum.count(table) for stratum in strata]
    successes = np.array([hit for hit, _ in counts])
    return gap_estimate(successes, successes + np.array([miss for _, miss in counts]))


@pytest.fixture(scope="module")
def binary():
    rng = np.random.default_rng(0)
    return rng.integers(3, size=500), rng.integers(2, size=500), rng.integers(2, size=500)


@pytest.mark.parametrize(
    ("notion", "oracle"),
    [
        ("demographic_parity", demographic_parity_difference),
        ("equal_opportunity", equal_opportunity_difference),
        ("equalized_odds", equalized_odds_difference),
    ],
)
def test_binary_estimates_equal_fairlearns(binary, notion, oracle):
    group, label, prediction = binary
    expected = oracle(label, prediction, sensitive_features=group)
    found = estimate(notion, table_of(group, label, prediction, (3, 2, 2)), [0, 1])
    assert found == pytest.approx(expected)


def test_accuracy_parity_compares_shares_of_right_predictions(binary):
    group, label, prediction = binary
    accuracy = [(label == prediction)[group == g].mean() for g in range(3)]
    found = estimate("accuracy_parity", table_of(group, label, prediction, (3, 2, 2)), [0, 1])
    assert found == pytest.approx(max(accuracy) - min(accuracy))


def test_many_classes_take_the_worst_class():
    rng = np.random.default_rng(1)
    group, label, prediction = (rng.integers(3, size=900) for _ in range(3))
    table = table_of(group, label, prediction, (3, 3, 3))

    def gap(rows_of):
        rates = [[rows_of(g, c) for g in range(3)] for c in range(3)]
        return max(max(r) - min(r) for r in rates)

    parity = gap(lambda g, c: (prediction == c)[group == g].mean())
    opportunity = gap(lambda g, c: (prediction == c)[(group == g) & (label == c)].mean())
    odds = max(
        gap(lambda g, c, y=y: (prediction == c)[(group == g) & (label == y)].mean())
        for y in range(3)
    )
    classes = ["a", "b", "c"]
    assert estimate("demographic_parity", table, classes) == pytest.approx(parity)
    assert estimate("equal_opportunity", table, classes) == pytest.approx(opportunity)
    assert estimate("equalized_odds", table, classes) == pytest.approx(odds)


def test_strata_names_say_what_the_rate_is_conditioned_on():
    names = [s.name for s in get_notion("equalized_odds").strata(["{no}", "yes"])]
    assert names == ["label {no}", "label yes"]
    assert [s.name for s in get_notion("demographic_parity").strata([0, 1])] == [""]
    assert len(get_notion("equalized_odds").strata("abc")) == 9


@pytest.mark.parametrize("name", NOTIONS)
def test_each_pair_is_at_most_once_in_a_stratum(name):
    for classes in ("ab", "abc"):
        for stratum in NOTIONS[name].strata(classes):
            assert not np.any(stratum.successes & stratum.failures)


def test_without_labels_only_demographic_parity_is_possible():
    table = np.array([[[3, 7]], [[5, 5]]])
    found = estimate("demographic_parity", table, [0, 1], with_labels=False)
    assert found == pytest.approx(0.2)
    with pytest.raises(ValueError, match="y is None"):
        get_notion("equal_opportunity").strata([0, 1], with_labels=False)


@pytest.mark.parametrize("names", ["fairness", [], ["demographic_parity"] * 2])
def test_unknown_missing_and_repeated_names_are_refused(names):
    with pytest.raises(ValueError, match="notion="):
        get_notions(names)
