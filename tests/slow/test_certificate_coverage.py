"""The deployed-model bound covers the true gap, as often as it says, on simulated hold-outs.

The share of failures may exceed its nominal value by chance: a test fails only when the
number of failures is so large that a bound of exactly nominal level would show it with
probability below 1e-6.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from skfairdp import certify
from skfairdp.fairness.bounds.binomial_cells import clopper_pearson
from skfairdp.fairness.bounds.noisy_counts import (
    NoisyCells,
    noisy_gap_estimate,
    private_gap_upper_bound,
)
from skfairdp.fairness.bounds.rate_gaps import gap_estimate, gap_upper_bound
from skfairdp.privacy import NoiseSource
from skfairdp.receipts import unwrap
from tests.certificate.fakes import ThresholdClassifier

HOLDOUTS = 1000
LEVEL = 0.95
GAPS = (0.0, 0.05, 0.3)
SIZES = (100, 1_000, 10_000)
# Of what takes longer.
FEWER, FEWEST = 200, 40


def too_many(holdouts):
    """Smallest number of failures whose probability is below 1e-6 when each has .05."""
    return int(stats.binom.isf(1e-6, holdouts, 1 - LEVEL)) + 1


TOO_MANY = too_many(HOLDOUTS)


def tellers(estimates, gap):
    """Hold-outs whose bound may fail: a bound is no smaller than its estimate.

    Every tenth of the others is there too, to show that.
    """
    failing = estimates < gap
    return np.flatnonzero(failing | ((~failing).cumsum() % 10 == 1))


def shown(some, every):
    """Mark settings: some as slow, all others as those of a campaign."""
    assert set(some) < set(every)
    marks = {one: pytest.mark.slow if one in some else pytest.mark.campaign for one in every}
    return [pytest.param(*one, marks=mark) for one, mark in marks.items()]


def population(gap, n_groups, base):
    """Rates between `base` and `base + gap`, both ends taken."""
    return base + gap * np.linspace(0.0, 1.0, n_groups)


def simulate(gap, size, n_groups, base, seed=0):
    rng = np.random.default_rng(seed)
    rates = population(gap, n_groups, base)
    trials = np.full(n_groups, size)
    return rng.binomial(trials, rates, size=(HOLDOUTS, 1, n_groups)), trials


@pytest.mark.slow
@pytest.mark.parametrize("base", [0.02, 0.4])
@pytest.mark.parametrize("n_groups", [2, 5])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("gap", GAPS)
def test_bound_from_a_difference_covers_the_true_gap(gap, size, n_groups, base):
    successes, trials = simulate(gap, size, n_groups, base)
    rows = np.broadcast_to(trials, successes.shape)
    bounds = gap_upper_bound(successes, rows, confidence_level=LEVEL, bound="difference")
    assert (bounds < gap).sum() < TOO_MANY


# Small cells are enumerated in tests/fairness/bounds/test_rate_gaps.py. Here each size is met with
# either number of groups, gap and base rate; a campaign looks at all of their combinations.
GRID = [
    *itertools.product((0.05, 0.3), (100, 1_000), (2, 5), (0.02, 0.4)),
    (0.05, 10_000, 2, 0.02),
    (0.05, 10_000, 2, 0.4),
]
SHOWN = [
    *((0.05, 100, 2, 0.02), (0.3, 100, 5, 0.4), (0.05, 1_000, 5, 0.02), (0.3, 1_000, 2, 0.4)),
    (0.05, 10_000, 2, 0.4),
]


@pytest.mark.parametrize(("gap", "size", "n_groups", "base"), shown(SHOWN, GRID))
def test_exact_bound_covers_the_true_gap_and_is_narrower_than_its_forerunner(
    gap, size, n_groups, base
):
    successes, trials = simulate(gap, size, n_groups, base)
    drawn, times = np.unique(successes[:FEWER, 0], axis=0, return_counts=True)
    assert times.sum() == FEWER
    estimates = np.array([gap_estimate([one], [trials]) for one in drawn])
    told = tellers(estimates, gap)
    drawn, times, estimates = drawn[told], times[told], estimates[told]
    rows = np.broadcast_to(trials, drawn.shape)
    bounds = gap_upper_bound(drawn[:, np.newaxis], rows[:, np.newaxis], confidence_level=LEVEL)
    assert np.all(bounds >= estimates)
    assert times[bounds < gap].sum() < too_many(FEWER)
    lower, upper = clopper_pearson(drawn, rows - drawn, (1 - LEVEL) / 2)
    apart = upper[:, :, np.newaxis] - lower[:, np.newaxis, :]
    apart[:, np.arange(n_groups), np.arange(n_groups)] = 0.0
    assert np.all(bounds < apart.max(axis=(1, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_the_check_catches_an_observed_gap_sold_as_a_bound(size):
    successes, trials = simulate(0.3, size, 2, 0.4)
    observed = np.ptp(successes[:, 0] / trials, axis=1)
    assert (observed < 0.3).sum() >= TOO_MANY


NOISY = [
    (1.0, 1, 100, 2, 0.0, 0.4),
    (1.0, 2, 1_000, 5, 0.05, 0.4),
    (0.1, 2, 1_000, 2, 0.3, 0.02),
    (0.1, 1, 10_000, 5, 0.05, 0.02),
    (0.02, 2, 10_000, 2, 0.3, 0.4),
    (0.02, 1, 1_000, 2, 0.3, 0.4),
]


@pytest.mark.parametrize(
    ("epsilon", "terms", "size", "n_groups", "gap", "base", "public"),
    shown(
        [
            *((*NOISY[i], False) for i in (0, 3, 4)),
            *((*NOISY[i], True) for i in (1, 2, 5)),
        ],
        [(*one, public) for public in (False, True) for one in NOISY],
    ),
)
def test_bound_from_noisy_counts_covers_the_true_gap(
    epsilon, terms, size, n_groups, gap, base, public
):
    successes, trials = simulate(gap, size, n_groups, base)
    source = NoiseSource(0)

    def noise():
        drawn = source.discrete_laplace(epsilon, (terms, *successes.shape))
        return drawn.sum(axis=0)

    holdouts = FEWEST if public or size == 10_000 else HOLDOUTS // 4
    noisy_successes = (successes + noise())[:holdouts]
    noisy_failures = (trials - successes + noise())[:holdouts]
    ones = np.array([terms])
    cells = [
        NoisyCells(hit, miss, ones, ones, trials[np.newaxis] if public else None)
        for hit, miss in zip(noisy_successes, noisy_failures, strict=True)
    ]
    estimates = np.array([noisy_gap_estimate(each) for each in cells])
    told = tellers(estimates, gap)
    bounds = np.array(
        [private_gap_upper_bound(cells[i], epsilon, confidence_level=LEVEL) for i in told]
    )
    assert np.all(bounds >= estimates[told])
    assert (bounds < gap).sum() < too_many(holdouts)


@pytest.mark.slow
def test_the_check_catches_noise_that_the_bound_was_not_told_of():
    successes, trials = simulate(0.3, 1_000, 2, 0.4)
    source, one = NoiseSource(0), np.array([1])
    hits = successes + source.discrete_laplace(0.02, successes.shape)
    misses = trials - successes + source.discrete_laplace(0.02, successes.shape)
    missed, many = 0, too_many(HOLDOUTS // 4)
    for hit, miss in zip(hits[: HOLDOUTS // 4], misses, strict=False):
        cells = NoisyCells(hit, miss, one, one)
        missed += private_gap_upper_bound(cells, 5.0, confidence_level=LEVEL) < 0.3
        if missed == many:
            return
    pytest.fail(f"{missed} bounds failed, {many} or more were to")


BOTH = (None, 0.5)


@pytest.mark.parametrize(
    ("count_epsilon", "spread"), shown([(None, 0.5), (0.5, None)], [*itertools.product(BOTH, BOTH)])
)
def test_certificates_of_several_notions_hold_together(spread, count_epsilon, monkeypatch):
    """From rows to certificate: three groups whose features, and so whose rates, differ."""
    shifts = np.array([0.0, 0.15, 0.3])
    names = np.array(["a", "b", "c"])

    def rate(shift, label):
        # The feature is normal around the shift plus the label; selected when above 0.5.
        centre = shift + label - 0.5
        if spread is None:
            return stats.norm.cdf(centre)
        return integrate.quad(
            lambda z: stats.norm.pdf(z) / (1 + np.exp(-(centre + z) / spread)), -9, 9
        )[0]

    odds = np.array([[rate(shift, label) for shift in shifts] for label in (0, 1)])
    truth = {
        "demographic_parity": np.ptp(odds.mean(axis=0)),
        "equalized_odds": np.ptp(odds, axis=1).max(),
    }
    model = ThresholdClassifier((1.0,), threshold=0.5, spread=spread)
    model.fit(np.zeros((2, 1)), [0, 1], sensitive_features=names)
    of_the_model = unwrap.bind([model])  # the same in all certificates
    monkeypatch.setattr(unwrap, "bind", lambda _: of_the_model)
    rng = np.random.default_rng(1)
    source = None if count_epsilon is None else NoiseSource(1)
    failures, n_holdouts = 0, 100
    for _ in range(n_holdouts):
        group, label = rng.integers(3, size=900), rng.integers(2, size=900)
        feature = rng.normal(shifts[group] + label)[:, np.newaxis]
        certificate = certify(
            model,
            feature,
            label,
            sensitive_features=names[group],
            notion=list(truth),
            count_epsilon=count_epsilon,
            count_noise=source,
            holdout="public" if count_epsilon is None else "by_index",
        )
        claims = [claim for claim in certificate.fairness if claim.scope == "deployed model"]
        assert len(claims) == len(truth)
        failures += any(claim.bound < truth[claim.notion] for claim in claims)
    assert failures <= stats.binom.isf(1e-6, n_holdouts, 1 - LEVEL)
