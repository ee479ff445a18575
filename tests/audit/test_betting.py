"""Bets refute wrong claims early, and right ones as seldom as they say."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from skfairdp.audit.betting import PairBets
from tests.audit.fixed_number import epsilon_shown

EPSILON, DELTA, AUDITS = 1.0, 0.004, 200


def evidence_over_time(scores, thresholds, epsilon=EPSILON):
    bets = PairBets(thresholds)
    path = []
    for pair in scores:
        bets.add(*pair)
        path.append(bets.log_evidence([(epsilon, DELTA)]))
    return np.array(path)


def rates_at_the_edge(alarm, exchanged):
    """Rates of scores of 1, with and without, that the claim just allows."""
    found = math.exp(EPSILON) * alarm + DELTA
    return (1.0 - alarm, 1.0 - found) if exchanged else (found, alarm)


edges = pytest.mark.parametrize(
    ("alarm", "exchanged"), list(itertools.product([0.02, 0.2], [False, True]))
)


@edges
def test_evidence_has_mean_one_at_most_by_enumeration(alarm, exchanged):
    rates = rates_at_the_edge(alarm, exchanged)

    def mean(epsilon):
        total = 0.0
        for scores in itertools.product([(0, 0), (0, 1), (1, 0), (1, 1)], repeat=4):
            chance = np.prod(
                [[r if s else 1 - r for s, r in zip(p, rates, strict=True)] for p in scores]
            )
            total += chance * math.exp(evidence_over_time(scores, [0.5], epsilon)[-1])
        return total

    assert mean(EPSILON) <= 1.0
    assert mean(EPSILON + 0.3) < mean(EPSILON)
    assert mean(0.0) > 1.0  # a claim that is too small loses


def test_claims_that_all_hold_have_evidence_of_one_on_average():
    rates = stats.norm.sf([-0.5, 0.5])  # releases that are one standard deviation apart
    apart = rates[0] - rates[1]  # their total variation

    def mean(*claims):
        bets = {}
        for scores in itertools.product([(0, 0), (0, 1), (1, 0), (1, 1)], repeat=3):
            bets[scores] = PairBets([0.5])
            for pair in scores:
                bets[scores].add(*pair)
        return sum(
            math.exp(found.log_evidence(claims))
            * np.prod([[r if s else 1 - r for s, r in zip(p, rates, strict=True)] for p in scores])
            for scores, found in bets.items()
        )

    assert mean((0.0, apart)) == pytest.approx(1.0)
    assert mean((4.38, 1e-5), (0.0, apart)) < 1.0
    assert mean((0.0, apart / 2)) > 1.0  # a claim that is too small loses


@pytest.mark.slow
@edges
def test_a_right_claim_is_refuted_as_seldom_as_stated(alarm, exchanged):
    rates = rates_at_the_edge(alarm, exchanged)
    scores = np.random.default_rng(0).random((AUDITS, 150, 2)) < rates
    wrong = sum(evidence_over_time(s, [0.5]).max() >= math.log(20) for s in scores)
    # More have probability below 1e-6 at a test of exactly this error.
    assert wrong <= stats.binom.isf(1e-6, AUDITS, 0.05)


def test_a_wrong_claim_is_refuted_early():
    """Two Gaussians that are 1.76 apart, as after a quarter of the noise for this claim."""
    scores = np.random.default_rng(0).normal(size=(30, 500, 2)) + (1.76, 0.0)
    thresholds = np.linspace(-1.0, 3.0, 13)
    paths = [evidence_over_time(s, thresholds) >= math.log(1000) for s in scores]
    assert all(path.any() for path in paths)
    assert np.median([path.argmax() for path in paths]) < 150


def test_the_bound_is_where_evidence_ends_and_below_that_of_a_fixed_number_of_runs():
    bets = PairBets([0.5])
    assert bets.epsilon_lower_bound(0.05, 1e-5) == 0.0
    rng = np.random.default_rng(0)
    scores = rng.random((500, 2)) < (0.9, 0.1)
    for pair in scores:
        bets.add(*pair)
    found = bets.epsilon_lower_bound(0.05, 1e-5)
    assert bets.log_evidence([(found, 1e-5)]) == pytest.approx(math.log(20), abs=1e-6)
    hits, alarms = scores.sum(axis=0)
    fixed = epsilon_shown(hits, 500, alarms, 500, delta=1e-5)
    assert 0.75 * fixed < found < math.log(9)
