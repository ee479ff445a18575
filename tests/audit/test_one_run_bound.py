"""The arithmetic of audits: published vectors, an independent sum, simulated levels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from skfairdp.audit import (
    count_correct_guesses,
    one_run_epsilon,
    one_run_p_value,
)
from tests.audit.fixed_number import epsilon_shown


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "expected"),
    [
        (100, 100, 100, 1e-5, 3.49022),
        (1000, 100, 95, 1e-5, 2.16518),
        (1000, 100, 100, 1e-5, 3.46538),
        (1000, 1000, 600, 1e-5, 0.29723),
        (100, 100, 100, 0.0, 3.49297),
    ],
)
def test_one_run_bound_equals_the_reference_vectors(m, r, v, delta, expected):
    assert one_run_epsilon(m, r, v, delta=delta) == pytest.approx(expected, abs=6e-6)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((1000, 1000, 0, 1000), 5.6006), ((900, 1000, 100, 1000), 1.98969)],
)
def test_the_bound_of_a_fixed_number_equals_the_reference_vectors(counts, expected):
    assert epsilon_shown(*counts) == pytest.approx(expected, abs=6e-5)


def test_perfect_guesses_without_delta_reach_the_closed_form():
    rate = 0.05 ** (1 / 80)
    assert one_run_epsilon(500, 80, 80) == pytest.approx(math.log(rate / (1 - rate)), abs=1e-9)


@pytest.mark.parametrize(("m", "r", "v"), [(30, 20, 1), (30, 20, 15), (30, 30, 30), (12, 7, 6)])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
def test_one_run_p_value_equals_the_sum_term_by_term(m, r, v, epsilon):
    delta = 1e-3
    success = math.exp(epsilon) / (1 + math.exp(epsilon))
    mass = [math.comb(r, k) * success**k * (1 - success) ** (r - k) for k in range(r + 1)]
    shares = [sum(mass[max(v - i, 0) : v]) / i for i in range(1, m + 1)]
    expected = min(1.0, sum(mass[v:]) + 2 * m * delta * max(shares))
    got = one_run_p_value(m, r, v, epsilon=epsilon, delta=delta)
    assert got == pytest.approx(expected, rel=1e-9)


def test_p_values_turn_at_the_bound():
    bound = one_run_epsilon(1000, 100, 95, delta=1e-5)
    assert one_run_p_value(1000, 100, 95, epsilon=bound, delta=1e-5) < 0.05
    assert one_run_p_value(1000, 100, 95, epsilon=bound + 1e-6, delta=1e-5) > 0.05


def test_no_evidence_gives_zero_and_one():
    assert one_run_epsilon(100, 0, 0, delta=1e-5) == 0.0
    assert one_run_p_value(100, 0, 0, epsilon=1.0) == 1.0
    assert one_run_epsilon(100, 100, 50, delta=1e-5) == 0.0


def test_delta_weakens_the_bound():
    assert one_run_epsilon(1000, 100, 95, delta=1e-3) < one_run_epsilon(1000, 100, 95)


def test_an_infinite_claim_is_never_refuted():
    assert one_run_p_value(10, 10, 10, epsilon=math.inf) == 1.0


def test_one_run_bound_keeps_its_level_against_the_best_pure_mechanism():
    # Randomised response per coin at epsilon = 1 meets the theorem with equality, so the
    # exact error can be summed: no simulation error.
    epsilon, r, level = 1.0, 60, 0.9
    success = math.exp(epsilon) / (1 + math.exp(epsilon))
    bounds = np.array([one_run_epsilon(r, r, v, confidence_level=level) for v in range(r + 1)])
    error = binom.pmf(np.arange(r + 1), r, success)[bounds > epsilon].sum()
    assert 0.02 < error <= 0.1


def test_the_bound_of_a_fixed_number_keeps_its_level_against_randomised_response():
    epsilon, runs, level = 1.0, 40, 0.9
    success = math.exp(epsilon) / (1 + math.exp(epsilon))
    grid = np.arange(runs + 1)
    exceeds = np.array(
        [[epsilon_shown(t, runs, f, runs, error=1 - level) > epsilon for f in grid] for t in grid]
    )
    weight = np.outer(binom.pmf(grid, runs, success), binom.pmf(grid, runs, 1 - success))
    assert 0.0 < weight[exceeds].sum() <= 0.1


def test_guesses_are_the_extremes_and_ties_go_by_position():
    included = np.array([False, True, True, False, True])
    scores = np.array([-1.0, 5.0, 0.0, 0.0, 0.0])
    assert count_correct_guesses(scores, included, n_guesses=2) == 2
    assert count_correct_guesses(scores, included, n_guesses=4) == 3
    assert count_correct_guesses(scores, included) == 3
    assert count_correct_guesses(scores, included, n_guesses=0) == 0


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: one_run_epsilon(10, 11, 5), "n_guesses"),
        (lambda: one_run_epsilon(10, 5, 6), "n_correct"),
        (lambda: one_run_epsilon(0, 0, 0), "n_canaries"),
        (lambda: one_run_epsilon(10, 5, 5, delta=-0.1), "delta"),
        (lambda: one_run_epsilon(10, 5, 5, confidence_level=1.0), "confidence_level"),
        (lambda: one_run_p_value(10, 5, 5, epsilon=math.nan), "epsilon"),
        (lambda: one_run_p_value(10, 5, 5, epsilon=-1.0), "epsilon"),
        (lambda: count_correct_guesses([1.0, 2.0], [True, False], n_guesses=1), "n_guesses"),
        (lambda: count_correct_guesses([1.0, 2.0], [True]), "one entry for each canary"),
        (lambda: count_correct_guesses([1.0, math.nan], [True, False]), "NaN"),
    ],
)
def test_impossible_inputs_are_refused_by_name(call, names):
    with pytest.raises(ValueError, match=names):
        call()
