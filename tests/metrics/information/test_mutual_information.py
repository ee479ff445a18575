"""The lower bound of a classifier and the permutation test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from skfairdp.fairness.bounds import leakage
from skfairdp.metrics import classifier_lower_bound, mutual_information, permutation_p_value

from .cases import noisy_channel, shifted_normals


def test_bound_is_near_the_information_where_the_classifier_is_good():
    z, s, truth = shifted_normals(20_000, 2.0, np.random.default_rng(0))
    result = classifier_lower_bound(z, s, classifier=LogisticRegression(), random_state=0)
    assert result.lower_bound <= truth
    # 10,000 held-out rows, variance of a gain below .6, range below 5: width below .04.
    assert result.lower_bound >= truth - 0.05
    # Six standard errors of the mean gain.
    assert abs(result.value - truth) <= 6 * math.sqrt(0.6 / 10_000)


def test_bound_is_zero_for_no_information_and_for_a_classifier_that_knows_nothing():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 3, 900)
    assert classifier_lower_bound(rng.normal(size=(900, 2)), s).lower_bound == 0.0
    perfect = np.eye(3)[s]
    assert classifier_lower_bound(perfect, s, classifier=DummyClassifier()).lower_bound == 0.0
    assert classifier_lower_bound(perfect, s, units="bits").lower_bound > 1.0


def test_bound_survives_a_classifier_that_is_sure_and_wrong():
    class Liar(LogisticRegression):
        def predict_proba(self, X):
            return np.eye(2)[1 - (np.asarray(X)[:, 0] > 0.5).astype(int)]

    s = np.tile([0, 1], 400)
    result = classifier_lower_bound(s[:, None] * 1.0, s, classifier=Liar())
    assert result.lower_bound == 0.0
    assert np.isfinite(result.unclipped)


def test_more_confidence_means_a_lower_bound():
    z, s, _ = shifted_normals(2_000, 2.0, np.random.default_rng(0))
    bounds = [
        classifier_lower_bound(z, s, confidence_level=level, random_state=0).lower_bound
        for level in (0.5, 0.95, 0.9999)
    ]
    assert bounds == sorted(bounds, reverse=True)
    assert len(set(bounds)) == 3


def test_prior_error_bounds_the_divergence_on_the_whole_interval():
    """Against a fine grid over the interval of the share."""
    counts, prior = np.array([300, 700]), np.array([0.31, 0.69])
    bound = leakage._prior_error(counts, prior, 0.05)
    low, high = stats.beta.ppf(0.025, 300, 701), stats.beta.ppf(0.975, 301, 700)
    grid = np.linspace(low, high, 1_001)
    divergence = grid * np.log(grid / 0.31) + (1 - grid) * np.log((1 - grid) / 0.69)
    assert divergence.max() <= bound <= divergence.max() + 1e-3


@pytest.mark.parametrize("mean", [0.02, 0.5, 0.9])
def test_mean_bound_covers_the_mean_of_bounded_values(mean):
    """Zeros and ones: failures of a 90 % bound, at most by chance (1e-6) too many."""
    rng = np.random.default_rng(0)
    draws = (rng.random((1_000, 100)) < mean).astype(float)
    bounds = np.array([leakage._mean_below(row, 0.1) for row in draws])
    assert (bounds > mean).sum() <= stats.binom.isf(1e-6, 1_000, 0.1)
    # Not empty: the exact bound of Clopper and Pearson is met within a tenth.
    exact = stats.beta.ppf(0.1, 100 * mean, 101 - 100 * mean)
    assert np.median(bounds) >= exact - 0.1


def test_groups_may_be_of_any_kind_and_rows_of_any_shape():
    rng = np.random.default_rng(0)
    s = rng.choice(["a", "b"], 400)
    images = rng.normal(size=(400, 3, 4, 4)) + (s == "a")[:, None, None, None]
    assert classifier_lower_bound(images, s, random_state=0).lower_bound > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["plug_in", "nearest_neighbours", "classifier"])
def test_p_values_are_uniform_without_information(method):
    """Never more than alpha below alpha; for continuous statistics also not many fewer."""
    draws, level = 60, 0.3
    small = 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, 4, 120) if method == "plug_in" else rng.normal(size=(120, 1))
        p = permutation_p_value(
            z, rng.integers(0, 2, 120), method=method, n_permutations=19, random_state=seed
        )
        assert 1 / 20 <= p <= 1.0
        small += p <= level
    assert small <= stats.binom.isf(1e-6, draws, level)
    assert small >= stats.binom.ppf(1e-6, draws, level)


@pytest.mark.parametrize("method", ["auto", "nearest_neighbours", "classifier"])
def test_p_value_is_smallest_where_information_is_plain(method):
    z, s, _ = shifted_normals(300, 4.0, np.random.default_rng(0))
    p = permutation_p_value(z, s, method=method, n_permutations=39, random_state=0)
    assert p == 1 / 40


def test_one_call_gives_estimate_bound_and_p_value():
    z, s, truth = noisy_channel(4_000, 0.2, 2, np.random.default_rng(0))
    result = mutual_information(z, s, confidence_level=0.99, n_permutations=19, random_state=0)
    assert result.method == "plug_in"
    assert 0.0 < result.lower_bound < truth
    assert result.confidence_level == 0.99
    assert result.p_value == 0.05


ROWS = np.random.default_rng(0).normal(size=(60, 2))
HALVES = np.tile([0, 1], 30)
BAD = [
    (classifier_lower_bound, (ROWS, HALVES), {"confidence_level": 1.0}, "confidence_level"),
    (classifier_lower_bound, (ROWS, HALVES), {"confidence_level": "high"}, "confidence_level"),
    (classifier_lower_bound, (ROWS, HALVES), {"test_size": 0.0}, "test_size"),
    (classifier_lower_bound, (ROWS, HALVES), {"units": "bans"}, "units"),
    (classifier_lower_bound, (ROWS, [0] * 60), {}, "two"),
    (classifier_lower_bound, (ROWS, [1] * 5 + [0] * 55), {}, "fewer than 20"),
    (classifier_lower_bound, (ROWS * np.inf, HALVES), {}, "infinite"),
    (permutation_p_value, (ROWS, HALVES), {"method": "mine"}, "method"),
    (permutation_p_value, (ROWS, HALVES), {"n_permutations": 0}, "n_permutations"),
    (permutation_p_value, (np.ones((60, 9)), ROWS[:, 0]), {}, "no permutation test"),
]


@pytest.mark.parametrize(("function", "arguments", "keywords", "words"), BAD)
def test_bad_input_is_refused_by_name(function, arguments, keywords, words):
    with pytest.raises(ValueError, match=words):
        function(*arguments, **keywords)
