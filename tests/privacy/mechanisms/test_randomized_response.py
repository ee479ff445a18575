"""Randomised response: the law of the answers, its cost, and how tables are turned back."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from skfairdp.privacy import NoiseSource
from skfairdp.privacy.mechanisms.randomized_response import _RESOLUTION, RandomizedResponse

EPSILONS = [1e-4, 0.01, 0.5, 1.0, 5.0, 20.0, 60.0, 2000.0]
SIZES = [2, 3, 7, 1000]


def odds(response: RandomizedResponse) -> Fraction:
    """Exact ratio of the probabilities of the truth and of another value."""
    return Fraction(response._keep, response._change)


@pytest.mark.parametrize("n_values", SIZES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_exact_odds_never_exceed_the_budget(epsilon: float, n_values: int) -> None:
    response = RandomizedResponse(epsilon, n_values)
    assert response._keep + (n_values - 1) * response._change == _RESOLUTION
    assert response._keep > response._change > 0
    # Lower bound on e^eps from the first terms of its series, in exact arithmetic.
    if epsilon <= 20.0:
        exact, term, k = Fraction(0), Fraction(1), 0
        while k < 200:
            exact, k = exact + term, k + 1
            term = term * Fraction(epsilon) / k
        assert odds(response) <= exact
        # One unit less for the others would be too much: nothing is given away.
        less = response._change - 1
        more = Fraction(_RESOLUTION - (n_values - 1) * less, less)
        assert more > exact * (1 - Fraction(1, 10**15))
    assert response.spent <= epsilon
    digits = Context(prec=60)
    cost = digits.ln(digits.divide(Decimal(response._keep), Decimal(response._change)))
    assert response.spent - 1e-13 <= float(cost)
    assert cost <= Decimal(response.spent)


def test_probabilities_are_those_of_the_papers() -> None:
    response = RandomizedResponse(1.0, 2)
    assert response.keep_probability == pytest.approx(math.e / (1 + math.e), abs=1e-15)
    three = RandomizedResponse(2.0, 3)
    assert three.keep_probability == pytest.approx(math.exp(2) / (math.exp(2) + 2), abs=1e-15)
    assert three.attenuation == pytest.approx(three.keep_probability - three.change_probability)


@pytest.mark.parametrize("n_values", [2, 3, 5])
def test_answers_follow_the_stated_law(n_values: int) -> None:
    response, n = RandomizedResponse(1.0, n_values), 40_000
    for truth in range(n_values):
        answers = response.report(np.full(n, truth), NoiseSource())
        counts = np.bincount(answers, minlength=n_values)
        assert len(counts) == n_values
        for value, count in enumerate(counts):
            expected = response.matrix[value, truth]
            # Each of the 38 counts fails with chance at most 1e-9.
            low, high = binom.ppf([5e-10, 1 - 5e-10], n, expected)
            assert low <= count <= high


def test_a_value_outside_the_list_is_answered_evenly() -> None:
    n = 40_000
    answers = RandomizedResponse(5.0, 4).report(np.full(n, -1), NoiseSource())
    low, high = binom.ppf([5e-10, 1 - 5e-10], n, 0.25)
    assert all(low <= count <= high for count in np.bincount(answers, minlength=4))
    # Even answers are at most e^eps likelier, and less likely, than those of any value.
    for epsilon in (0.1, 5.0):
        response = RandomizedResponse(epsilon, 4)
        ratios = response.matrix / 0.25
        assert np.abs(np.log(ratios)).max() <= epsilon


def test_infinite_epsilon_tells_the_truth() -> None:
    response, codes = RandomizedResponse(math.inf, 3), np.arange(300) % 3
    assert np.array_equal(response.report(codes, NoiseSource()), codes)
    assert np.array_equal(response.matrix, np.eye(3))
    assert math.isinf(response.spent)


@pytest.mark.parametrize("n_values", SIZES[:3])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0, math.inf])
def test_inversion_undoes_the_law_of_the_answers(epsilon: float, n_values: int) -> None:
    response = RandomizedResponse(epsilon, n_values)
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.ones(n_values), size=(2, 2)) * rng.random((2, 2, 1))
    shown = true @ response.matrix.T
    assert np.allclose(response.invert(shown), true, atol=1e-12 / response.attenuation)
    # Columns and rows of the law sum to one, so the inverse keeps sums.
    table = rng.random((3, n_values))
    assert np.allclose(response.invert(table).sum(axis=1), table.sum(axis=1))
    inverse = (np.eye(n_values) - response.change_probability) / response.attenuation
    assert np.allclose(inverse @ response.matrix, np.eye(n_values), atol=1e-9)


def test_two_sources_give_independent_answers() -> None:
    response, codes = RandomizedResponse(1.0, 2), np.zeros(2000, dtype=np.int64)
    first, second = (response.report(codes, NoiseSource()) for _ in range(2))
    assert not np.array_equal(first, second)
    same = [response.report(codes, NoiseSource(3)) for _ in range(2)]
    assert np.array_equal(*same)


@pytest.mark.parametrize(("epsilon", "n_values"), [(0.0, 2), (-1.0, 2), (math.nan, 2), (1.0, 1)])
def test_senseless_parameters_are_refused(epsilon: float, n_values: int) -> None:
    with pytest.raises(ValueError, match="epsilon=|n_values="):
        RandomizedResponse(epsilon, n_values)
