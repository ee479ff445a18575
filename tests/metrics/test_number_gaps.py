"""Gaps and reports of predicted numbers agree with other libraries, and refuse other values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import sklearn
from fairlearn.metrics import MetricFrame, mean_prediction
from scipy.stats import ks_2samp
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import GridSearchCV, cross_validate

from skfairdp.fairness.number_notions import NUMBER_NOTIONS
from skfairdp.metrics import (
    AccuracyUnderGapScorer,
    ErrorUnderGapScorer,
    GapScorer,
    fairness_report,
    group_gap,
)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 300)
    return rng.normal(size=300), np.round(rng.normal(size=300) + 0.4 * groups, 1), groups


def test_the_gap_of_distributions_is_the_largest_distance_of_two_groups(rows):
    y, p, a = rows
    pairs = itertools.combinations([p[a == code] for code in range(3)], 2)
    gap = group_gap(y, p, sensitive_features=a, notion="distribution_gap")
    assert gap == pytest.approx(max(ks_2samp(*pair).statistic for pair in pairs), abs=1e-12)
    assert 0.1 < gap < 1.0


def test_the_gap_of_means_is_that_of_the_metric_frame(rows):
    y, p, a = rows
    frame = MetricFrame(metrics=mean_prediction, y_true=y, y_pred=p, sensitive_features=a)
    gap = group_gap(y, p, sensitive_features=a, notion="mean_gap")
    assert gap == pytest.approx(frame.difference(), abs=1e-12)


def test_scorers_of_numbers_are_found_by_cross_validation(rows):
    y, p, a = rows
    X = pd.DataFrame({"p": p, "group": a})
    names = "distribution_gap", "mean_gap"
    scorers = {name: GapScorer(name, sensitive_column="group") for name in names}
    found = cross_validate(LinearRegression(), X, y, cv=3, scoring=scorers)
    assert np.all(found["test_distribution_gap"] < 0.0)
    constant = cross_validate(DummyRegressor(), X, y, cv=3, scoring=scorers)
    assert np.abs(constant["test_mean_gap"]).max() < 1e-12
    under = AccuracyUnderGapScorer("mean_gap", sensitive_column="group")
    with pytest.raises(ValueError, match="no accuracy. Use ErrorUnderGapScorer"):
        under(DummyRegressor().fit(X, y), X, y)


@pytest.mark.parametrize("error", ["absolute", "squared"])
def test_errors_count_only_under_a_tolerable_gap(rows, error):
    y, p, a = rows
    X, y = pd.DataFrame({"p": p, "group": a}), y + p
    model = LinearRegression().fit(X, y)
    guess = model.predict(X)
    gap = group_gap(y, guess, sensitive_features=a, notion="mean_gap")
    of = {"sensitive_column": "group", "error": error}
    kept = ErrorUnderGapScorer("mean_gap", tolerance=1.01 * gap, **of)(model, X, y)
    if error == "squared":
        assert kept == pytest.approx(1.0 / (2.0 - r2_score(y, guess)))
    else:
        off, constant = np.abs(y - guess).mean(), np.abs(y - np.median(y)).mean()
        assert kept == pytest.approx(constant / (constant + off))
    assert 0.5 < kept < 1.0
    beyond = ErrorUnderGapScorer("mean_gap", tolerance=0.5 * gap, **of)(model, X, y)
    assert beyond == pytest.approx(-0.5 * gap)
    # As bad as can be, but tolerable: still above all that are not.
    worst = DummyRegressor(strategy="constant", constant=1e9).fit(X, y)
    assert 0.0 <= ErrorUnderGapScorer("mean_gap", tolerance=0.1, **of)(worst, X, y) < 1e-6
    assert ErrorUnderGapScorer(tolerance=0.0, **of)(worst, X, np.full(300, 1e9)) == 1.0


@pytest.mark.parametrize("routed", [True, False])
def test_a_grid_search_takes_the_smallest_error_under_the_gap(rows, routed):
    y, p, a = rows
    X, y = pd.DataFrame({"p": p, "group": a}), y + 2 * p
    grid = {"strategy": ["constant", "quantile"], "constant": [9.0], "quantile": [0.5]}
    if not routed:
        scorer = ErrorUnderGapScorer(sensitive_column="group")
        found = GridSearchCV(DummyRegressor(), grid, scoring=scorer, error_score="raise")
        assert found.fit(X, y).best_params_["strategy"] == "quantile"
        return
    with sklearn.config_context(enable_metadata_routing=True):
        found = GridSearchCV(
            DummyRegressor(), grid, scoring=ErrorUnderGapScorer(), error_score="raise"
        )
        found.fit(X[["p"]], y, sensitive_features=a)
        assert found.best_params_["strategy"] == "quantile"
        assert 0.4 < found.best_score_ < 0.6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 2.0}, "tolerance=2.0 is not allowed"),
        ({"tolerance": -1.0, "notion": "mean_gap"}, "tolerance=-1.0 is not allowed"),
        ({"error": "r2"}, "error='r2' is not allowed"),
        ({"notion": "luck"}, "notion='luck' is not known"),
    ],
)
def test_settings_of_error_under_gap_are_refused_by_name(rows, options, message):
    y, p, a = rows
    X = pd.DataFrame({"p": p, "group": a})
    scorer = ErrorUnderGapScorer(sensitive_column="group", **options)
    with pytest.raises(ValueError, match=message):
        scorer(DummyRegressor().fit(X, y), X, y)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda p: np.where(p > 1, np.nan, p), {}, "finite numbers alone"),
        (lambda p: p.astype(str), {}, "finite numbers alone"),
        (lambda p: p, {"pos_label": 1}, "leave pos_label and classes out"),
        (lambda p: p, {"sensitive_features": np.zeros(300)}, "at least two"),
    ],
)
def test_what_is_no_number_is_refused(rows, change, options, message):
    y, p, a = rows
    given = {"sensitive_features": a, "notion": "mean_gap", **options}
    with pytest.raises(ValueError, match=message):
        group_gap(y, change(p), **given)


def test_a_report_of_numbers_equals_figures_computed_by_hand(rows):
    y, p, a = rows
    y = y + 0.5 * p
    report = fairness_report(y, p, sensitive_features=a, numeric=True)
    table = report.to_frame()
    assert [*table.index] == ["0", "1", "2", "overall"]
    for name in table.index:
        mask = np.full(300, True) if name == "overall" else a == int(name)
        row = table.loc[name]
        assert row["count"] == mask.sum()
        assert row["mean_target"] == pytest.approx(y[mask].mean())
        assert row["mean_prediction"] == pytest.approx(p[mask].mean())
        assert row["mean_absolute_error"] == pytest.approx(mean_absolute_error(y[mask], p[mask]))
        assert row["r2"] == pytest.approx(r2_score(y[mask], p[mask]))
    for code in range(3):
        others = [p[a == other] for other in range(3) if other != code]
        far = max(ks_2samp(p[a == code], other).statistic for other in others)
        assert table.loc[str(code), "distribution_gap"] == pytest.approx(far, abs=1e-12)
        apart = max(abs(p[a == code].mean() - other.mean()) for other in others)
        assert table.loc[str(code), "mean_gap"] == pytest.approx(apart)
    for notion in NUMBER_NOTIONS:
        gap = group_gap(y, p, sensitive_features=a, notion=notion)
        assert report.gaps[notion] == table.loc["overall", notion] == gap
    for name in ("mean_absolute_error", "r2"):
        assert report.gaps[name] == pytest.approx(np.ptp(table[name].iloc[:3]))
    assert report.pos_label is None
    assert "predicted numbers" in str(report)
    assert "predicted numbers" in report._repr_html_()


def test_a_report_of_numbers_leaves_out_rows_without_a_group(rows):
    y, p, a = rows
    holes = pd.Series(a, dtype=object)
    holes.iloc[:7] = None
    report = fairness_report(y, p, sensitive_features=holes, numeric=True)
    assert (report.n_rows, report.n_dropped) == (293, 7)
    kept = fairness_report(y[7:], p[7:], sensitive_features=a[7:], numeric=True)
    pd.testing.assert_frame_equal(report.to_frame(), kept.to_frame())


def test_figures_of_numbers_that_are_not_defined_are_nan():
    alone = fairness_report([1.5, 2.0], [1.0, 2.0], sensitive_features=["a", "a"], numeric=True)
    assert all(math.isnan(gap) for gap in alone.gaps.values())
    y, p, a = [1.0, 1.0, 2.0, 3.0], [1.0, 2.0, 2.0, 3.0], ["a", "a", "b", "b"]
    report = fairness_report(y, p, sensitive_features=a, numeric=True)
    assert math.isnan(report.to_frame().loc["a", "r2"])  # of equal targets
    assert math.isnan(report.gaps["r2"])
    assert report.gaps["distribution_gap"] == 0.5


def test_small_numbers_are_printed_with_their_figures():
    y, a = [1e-5, 2.25e-5, 1e-5, 4e-5], ["a", "a", "b", "b"]
    report = fairness_report(y, y, sensitive_features=a, numeric=True)
    assert "1.625e-05" in str(report)
    assert "1.625e-05" in report._repr_html_()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda p: np.where(p > 1, np.nan, p), {}, "y_pred must hold finite numbers"),
        (lambda p: p.astype(str), {}, "y_pred must hold finite numbers"),
        (lambda p: p[:-1], {}, "y_pred. must hold one"),
        (lambda p: p, {"pos_label": 1}, "leave pos_label out"),
        (lambda p: p, {"y_score": [1], "classes": [0, 1]}, "leave y_score, classes out"),
        (lambda p: p, {"numeric": False}, "fairness_report with numeric=True"),
        (lambda p: p, {"sensitive_features": [None] * 300}, "no value in any row"),
    ],
)
def test_a_report_of_numbers_refuses_other_values_by_name(rows, change, options, message):
    y, p, a = rows
    given = {"sensitive_features": a, "numeric": True, **options}
    with pytest.raises(ValueError, match=message):
        fairness_report(y, change(p), **given)
