"""make_biased_gaussians draws what its docstring says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from skfairdp.datasets import make_biased_gaussians


def test_rates_hold_to_the_row():
    bunch = make_biased_gaussians(random_state=0)
    assert bunch.data.shape == (10_000, 12)
    rates = bunch.target.groupby(bunch.sensitive_features).agg(["mean", "size"])
    assert rates.loc["A"].tolist() == [0.8, 5_000]
    assert rates.loc["B"].tolist() == [0.2, 5_000]


def test_seed_fixes_the_draw():
    one, same, other = (make_biased_gaussians(50, random_state=seed) for seed in (1, 1, 2))
    assert one.data.equals(same.data)
    assert not one.data.equals(other.data)


def test_moments_are_the_stated_ones():
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    n = 20_000
    bunch = make_biased_gaussians(n, 2, covariance=covariance, random_state=0)
    centred = bunch.data.to_numpy() - np.where(bunch.target == 1, 1.0, -1.0)[:, None]
    # Five standard errors; the chance that one of five figures misses is below 1e-5.
    np.testing.assert_array_less(np.abs(centred.mean(axis=0)), 5 * np.sqrt(np.diag(covariance) / n))
    error = np.sqrt((covariance**2 + np.outer(np.diag(covariance), np.diag(covariance))) / n)
    np.testing.assert_array_less(np.abs(np.cov(centred.T, bias=True) - covariance), 5 * error)


def test_default_covariance_allows_the_stated_auc():
    bunch = make_biased_gaussians(100_000, random_state=0)
    # All features are exchangeable, so their sum is the best score.
    best = roc_auc_score(bunch.target, bunch.data.sum(axis=1))
    # The sum has means +-12 and variance 12 + 144.
    expected = stats.norm.cdf(24 / np.sqrt(2 * 156))
    assert round(expected, 3) == 0.913
    # Standard error of an AUC with 50,000 rows a class is below .001.
    assert abs(best - expected) < 0.005


def test_bounds_come_from_the_distribution_and_not_from_rows():
    one, other = (make_biased_gaussians(20, random_state=seed) for seed in (1, 2))
    assert one.bounds == other.bounds
    low, high = one.bounds["x0"]
    assert (low, high) == pytest.approx((-8.07, 8.07), abs=0.01)


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_samples": 1},
        {"n_features": 0},
        {"positive_rate": 1.5},
        {"covariance": np.eye(3)},
        {"covariance": -np.eye(12)},
        {"covariance": np.triu(np.ones((12, 12)))},
    ],
)
def test_impossible_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match=r"Allowed|eigenvalue"):
        make_biased_gaussians(**arguments)
