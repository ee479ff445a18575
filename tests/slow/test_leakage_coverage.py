"""Tests of the coverage of the measured lower bound on I(S; Z).

The predictor of these tests is the best possible one, so that only the confidence parts keep the
bound below the truth. A test fails only when failures are so frequent that a bound of exactly
nominal level would show them with probability below 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin

from skfairdp.metrics import classifier_lower_bound

pytestmark = pytest.mark.slow

DRAWS = 400
LEVEL = 0.8
TOO_MANY = int(stats.binom.isf(1e-6, DRAWS, 1 - LEVEL)) + 1


class Oracle(ClassifierMixin, BaseEstimator):
    """Knows the channel; Z holds the released symbol, `posterior[z]` the law of s given z."""

    def __init__(self, posterior=None):
        self.posterior = posterior

    def fit(self, X, y):
        self.classes_ = np.arange(len(self.posterior[0]))
        return self

    def predict_proba(self, X):
        return np.asarray(self.posterior)[np.asarray(X)[:, 0].astype(int)]


def draws(prior, channel, n_rows, classifier=None):
    """Results on DRAWS samples of a channel, and its information in nats."""
    joint = np.asarray(prior)[:, None] * np.asarray(channel)
    marginal = joint.sum(axis=0)
    information = float((joint * np.log(joint / np.outer(prior, marginal))).sum())
    oracle = Oracle((joint / marginal).T.tolist()) if classifier is None else classifier
    results = []
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        cell = rng.choice(joint.size, size=n_rows, p=joint.ravel())
        s, z = np.divmod(cell, joint.shape[1])
        results.append(
            classifier_lower_bound(
                z[:, None], s, classifier=oracle, confidence_level=LEVEL, random_state=seed
            )
        )
    return results, information


CHANNELS = {
    "weak": ([0.5, 0.5], [[0.6, 0.4], [0.4, 0.6]]),
    "rare group": ([0.8, 0.2], [[0.9, 0.1], [0.3, 0.7]]),
    "no information": ([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]),
    "nearly perfect": ([0.4, 0.6], [[0.99, 0.01], [0.01, 0.99]]),
    "three groups": ([0.3, 0.3, 0.4], [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]),
}


@pytest.mark.parametrize("n_rows", [300, 3_000])
@pytest.mark.parametrize("name", sorted(CHANNELS))
def test_bound_is_below_the_truth(name, n_rows):
    results, information = draws(*CHANNELS[name], n_rows)
    # Without information the bound is 0, which is the truth and no failure.
    assert sum(r.lower_bound > information + 1e-12 for r in results) < TOO_MANY


def test_bound_says_something():
    """The union is not so wide that the bound is empty: most of the information is proved."""
    results, information = draws(*CHANNELS["three groups"], 3_000)
    assert np.mean([r.lower_bound for r in results]) > 0.8 * information


@pytest.mark.parametrize("name", ["nearly perfect", "three groups"])
def test_the_check_catches_an_estimate_sold_as_a_bound(name):
    results, information = draws(*CHANNELS[name], 3_000)
    assert sum(r.unclipped > information for r in results) >= TOO_MANY
