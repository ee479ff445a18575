"""The one-call report: rates by group, gaps, and the rows that were left out."""

from __future__ import annotations

import dataclasses
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import demographic_parity_difference
from sklearn.metrics import roc_auc_score

from skfairdp.fairness import NOTIONS
from skfairdp.metrics import fairness_report, group_gap


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    score = rng.random(300) * 0.7 + 0.3 * y
    return y, (score > 0.5).astype(int), score, rng.choice(["a", "b", "c"], 300)


def test_rates_equal_those_counted_by_hand(rows):
    y, p, score, a = rows
    report = fairness_report(y, p, sensitive_features=a, y_score=score)
    table = report.to_frame()
    assert list(table.index) == ["a", "b", "c", "overall"]
    for name in ["a", "b", "c", "overall"]:
        mask = np.ones(300, dtype=bool) if name == "overall" else a == name
        row = table.loc[name]
        assert row["count"] == mask.sum()
        assert row["selection_rate"] == pytest.approx(p[mask].mean())
        assert row["accuracy"] == pytest.approx((p == y)[mask].mean())
        assert row["true_positive_rate"] == pytest.approx(p[mask & (y == 1)].mean())
        assert row["false_positive_rate"] == pytest.approx(p[mask & (y == 0)].mean())
        assert row["roc_auc"] == pytest.approx(roc_auc_score(y[mask], score[mask]))
    for notion in NOTIONS:
        gap = group_gap(y, p, sensitive_features=a, notion=notion)
        assert report.gaps[notion] == pytest.approx(gap)
    assert report.gaps["roc_auc"] == pytest.approx(np.ptp(table["roc_auc"].iloc[:3]))


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA])
def test_rows_without_a_group_are_dropped_and_counted(rows, missing):
    y, p, score, a = rows
    holes = pd.Series(a, dtype=object)
    holes.iloc[:7] = missing
    report = fairness_report(y, p, sensitive_features=holes, y_score=score)
    assert (report.n_rows, report.n_dropped) == (293, 7)
    assert "7 more without a group left out" in str(report)
    assert "7 more without a group left out" in report._repr_html_()
    kept = fairness_report(y[7:], p[7:], sensitive_features=a[7:], y_score=score[7:])
    pd.testing.assert_frame_equal(report.to_frame(), kept.to_frame())


def test_string_labels_give_the_same_report(rows):
    y, p, _, a = rows
    words = np.array(["no", "yes"])
    report = fairness_report(pd.Series(words[y]), words[p], sensitive_features=a)
    assert report.pos_label == "yes"
    assert report.gaps == fairness_report(y, p, sensitive_features=a).gaps
    flipped = fairness_report(words[y], words[p], sensitive_features=a, pos_label="no")
    assert flipped.gaps["equal_opportunity"] != report.gaps["equal_opportunity"]


def test_more_than_two_labels_need_a_favourable_one(rows):
    y, p, _, a = rows
    y3, p3 = y + (np.arange(300) % 2), p + (np.arange(300) % 3 == 0)
    with pytest.raises(ValueError, match="pos_label"):
        fairness_report(y3, p3, sensitive_features=a)
    table = fairness_report(y3, p3, sensitive_features=a, pos_label=2).to_frame()
    assert table.loc["a", "selection_rate"] == pytest.approx((p3 == 2)[a == "a"].mean())
    assert table.loc["a", "accuracy"] == pytest.approx((p3 == y3)[a == "a"].mean())


def test_a_rate_without_rows_is_nan_and_said_to_be_undefined():
    report = fairness_report(
        [1, 0, 0, 0], [1, 0, 0, 1], sensitive_features=["a", "a", "b", "b"], y_score=[1, 0, 0, 1]
    )
    assert math.isnan(report.to_frame().loc["b", "true_positive_rate"])
    assert math.isnan(report.to_frame().loc["b", "roc_auc"])
    assert math.isnan(report.gaps["equal_opportunity"])
    assert math.isnan(report.gaps["equalized_odds"])
    assert report.gaps["demographic_parity"] == 0.0
    assert "not defined" in str(report)


def test_one_group_has_rates_but_no_gaps():
    report = fairness_report([0, 1], [0, 1], sensitive_features=["a", "a"])
    assert report.to_frame().loc["a", "accuracy"] == 1.0
    assert all(math.isnan(gap) for gap in report.gaps.values())


def test_intersections_of_two_attributes_are_groups(rows):
    y, p, _, a = rows
    frame = pd.DataFrame({"letter": a, "old": np.arange(300) % 2})
    assert len(fairness_report(y, p, sensitive_features=frame).to_frame()) == 7


def test_the_report_cannot_be_changed_through_its_table(rows):
    y, p, _, a = rows
    report = fairness_report(y, p, sensitive_features=a)
    table = report.to_frame()
    table.loc["a", "accuracy"] = 0.0
    assert report.to_frame().loc["a", "accuracy"] > 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.n_rows = 3
    assert str(pickle.loads(pickle.dumps(report))) == str(report)


def test_html_names_its_table_columns_and_rows(rows):
    y, p, _, a = rows
    shown = fairness_report(y, p, sensitive_features=a)._repr_html_()
    assert "<table><caption>Rates by group</caption>" in shown
    assert "<th scope='row'>overall</th><td>300</td>" in shown
    assert "<th></th>" not in shown


def test_html_escapes_labels():
    report = fairness_report(
        ["<b>", "c"], ["<b>", "c"], sensitive_features=["<i>", "<u>"], pos_label="<b>"
    )
    html = report._repr_html_()
    assert "<b>" not in html
    assert "<i>" not in html


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"y_score": [0.1, 0.2]}, "y_score must have shape"),
        ({"pos_label": 5}, "pos_label"),
        ({"sensitive_features": [None, None, None]}, "no value in any row"),
        ({"sensitive_features": ["a"]}, "sensitive_features"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, match):
    arguments = {"sensitive_features": ["a", "b", "b"], **arguments}
    with pytest.raises(ValueError, match=match):
        fairness_report([0, 1, 1], [0, 1, 0], **arguments)


def test_a_favourable_label_that_nobody_has_gives_rates_of_zero_as_fairlearn_does():
    y, groups = [0, 0, 0, 0], ["a", "a", "b", "b"]
    assert demographic_parity_difference(y, y, sensitive_features=groups) == 0.0
    for declared in ({"pos_label": 1}, {"pos_label": 1, "classes": [0, 1]}, {"classes": [0, 1]}):
        report = fairness_report(y, y, sensitive_features=groups, **declared)
        assert (report.gaps["demographic_parity"], report.pos_label) == (0.0, 1)
    assert group_gap(y, y, sensitive_features=groups, pos_label=1) == 0.0


def test_a_label_that_cannot_be_the_other_one_is_refused():
    groups = ["a", "b", "a"]
    for y, label, declared in (
        ([0, 0, 0], "yes", None),
        ([0, 1, 1], 2, None),
        ([0, 0, 0], 2, [0, 1]),
        ([0, 0, 0], 0, [1, 2]),
    ):
        with pytest.raises(ValueError, match="pos_label must be one|declared classes"):
            fairness_report(y, y, sensitive_features=groups, pos_label=label, classes=declared)
