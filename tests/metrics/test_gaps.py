"""The gap agrees with fairlearn where fairlearn defines it, and refuses where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn.metrics import (
    MetricFrame,
    demographic_parity_difference,
    equal_opportunity_difference,
    equalized_odds_difference,
)
from sklearn.metrics import accuracy_score

from skfairdp.metrics import fairness_report, group_gap


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.integers(0, 2, 300), rng.integers(0, 2, 300), rng.integers(0, 3, 300)


@pytest.mark.parametrize(
    ("notion", "reference"),
    [
        ("demographic_parity", demographic_parity_difference),
        ("equal_opportunity", equal_opportunity_difference),
        ("equalized_odds", equalized_odds_difference),
    ],
)
def test_binary_gap_equals_fairlearns_difference(rows, notion, reference):
    y, p, a = rows
    gap = group_gap(y, p, sensitive_features=a, notion=notion)
    assert gap == pytest.approx(reference(y, p, sensitive_features=a), abs=1e-12)
    assert gap > 0.01


def test_accuracy_gap_equals_the_metric_frame(rows):
    y, p, a = rows
    frame = MetricFrame(metrics=accuracy_score, y_true=y, y_pred=p, sensitive_features=a)
    gap = group_gap(y, p, sensitive_features=a, notion="accuracy_parity")
    assert gap == pytest.approx(frame.difference(), abs=1e-12)


def test_string_labels_and_groups_give_the_same_gap(rows):
    y, p, a = rows
    words, names = np.array(["no", "yes"]), np.array(["x", "y", "z"])
    for notion in ("demographic_parity", "equal_opportunity", "equalized_odds"):
        plain = group_gap(y, p, sensitive_features=a, notion=notion)
        assert group_gap(words[y], words[p], sensitive_features=names[a], notion=notion) == plain
    other = group_gap(
        words[y], words[p], sensitive_features=a, notion="equal_opportunity", pos_label="no"
    )
    assert other == pytest.approx(equal_opportunity_difference(1 - y, 1 - p, sensitive_features=a))


def test_multiclass_gap_is_the_largest_over_classes_and_strata():
    rng = np.random.default_rng(1)
    y, p, a = rng.integers(0, 3, 600), rng.integers(0, 3, 600), rng.integers(0, 2, 600)

    def spread(success, mask):
        rates = [success[mask & (a == g)].mean() for g in (0, 1)]
        return abs(rates[0] - rates[1])

    everyone = np.ones(600, dtype=bool)
    expected = {
        "demographic_parity": max(spread(p == c, everyone) for c in range(3)),
        "equal_opportunity": max(spread(p == c, y == c) for c in range(3)),
        "equalized_odds": max(spread(p == c, y == d) for c in range(3) for d in range(3)),
        "accuracy_parity": spread(p == y, everyone),
    }
    for notion, value in expected.items():
        gap = group_gap(y, p, sensitive_features=a, notion=notion)
        assert gap == pytest.approx(value, abs=1e-12), notion
    one = group_gap(y, p, sensitive_features=a, pos_label=2)
    assert one == pytest.approx(spread(p == 2, everyone), abs=1e-12)


def test_a_group_without_favourable_rows_is_refused_and_not_scored_zero():
    y, p, a = [1, 0, 0, 0], [1, 0, 0, 0], ["a", "a", "b", "b"]
    assert equal_opportunity_difference(y, p, sensitive_features=a) == 1.0  # 0 of 0 read as 0
    with pytest.raises(ValueError, match="group 'b' has no rows .label 1."):
        group_gap(y, p, sensitive_features=a, notion="equal_opportunity")


def test_one_group_is_refused():
    with pytest.raises(ValueError, match="at least two"):
        group_gap([0, 1], [0, 1], sensitive_features=["a", "a"])


def test_declared_classes_keep_the_favourable_label_when_it_does_not_occur():
    y, p, a = ["a", "a", "a", "a"], ["a", "a", "a", "a"], [0, 0, 1, 1]
    assert group_gap(y, p, sensitive_features=a, classes=["a", "b"]) == 0.0
    with pytest.raises(ValueError, match="declared classes"):
        group_gap(y, p, sensitive_features=a, classes=["b", "c"])


@pytest.mark.parametrize(
    ("truth", "guess", "declared", "match"),
    [
        (["0", "1", "0", "1"], [0, 1, 1, 1], None, "labels of one kind"),
        ([0, 1, 0, 1], np.array(["0", "1", "1", "1"]), None, "labels of one kind"),
        (["0", "1", "0", "1"], ["0", "1", "1", "1"], [0, 1], "declared classes"),
        ([0, 1, 0, 1], [0, 1, 1, 1], ["0", "1"], "declared classes"),
    ],
)
def test_texts_are_no_numbers(truth, guess, declared, match):
    # numpy makes texts of both: each label was read as the last class, and every gap was 0.
    named = {"sensitive_features": ["a", "a", "b", "b"], "classes": declared}
    for measure in (group_gap, fairness_report):
        with pytest.raises(ValueError, match=match):
            measure(truth, guess, **named)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"notion": "calibration"}, "notion='calibration' is not known"),
        ({"pos_label": 7}, "pos_label"),
        ({"sensitive_features": ["a", None, "b", "b"]}, "missing"),
        ({"sensitive_features": ["a", "b"]}, "sensitive_features"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, match):
    arguments = {"sensitive_features": ["a", "a", "b", "b"], **arguments}
    with pytest.raises(ValueError, match=match):
        group_gap([0, 1, 0, 1], [0, 1, 0, 1], **arguments)


def test_predictions_of_another_length_are_refused():
    with pytest.raises(ValueError, match="inconsistent numbers"):
        group_gap([0, 1, 0], [0, 1], sensitive_features=["a", "b"])


@pytest.mark.parametrize("measure", [group_gap, fairness_report])
def test_numbers_with_fractions_are_no_labels_unless_they_are_declared(measure) -> None:
    numbers, groups = [0.5, 1.0, 0.5, 1.0], ["a", "a", "b", "b"]
    with pytest.raises(ValueError, match="notion='distribution_gap' or 'mean_gap'"):
        measure(numbers, numbers, sensitive_features=groups)
    measure(numbers, numbers, sensitive_features=groups, classes=[0.5, 1.0])
