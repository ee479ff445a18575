"""Gaps of predicted numbers agree with scipy and fairlearn, and refuse what is no number."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import MetricFrame, mean_prediction
from scipy.stats import ks_2samp
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_validate

from skfairdp.metrics import AccuracyUnderGapScorer, GapScorer, group_gap


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
    with pytest.raises(ValueError, match="numbers, which have no accuracy"):
        under(DummyRegressor().fit(X, y), X, y)


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
