"""The number of runs follows the law that the accountant charges, and the charge is right."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy import stats

from skfairdp.model_selection.number_of_runs import (
    ORDERS,
    NumberOfRuns,
    curve,
    pure_curve,
    selected_curve,
)
from skfairdp.privacy import NoiseSource
from skfairdp.privacy.accounting.accountants import event_epsilon

BASE = dp_event.SelfComposedDpEvent(
    dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0)), 1000
)


def law_of(runs: NumberOfRuns, largest: int) -> np.ndarray:
    """Probability of 1, 2, ..., `largest` runs, from the definition (Papernot and Steinke 2022)."""
    k, gamma = np.arange(1, largest + 1), runs.gamma
    if runs.shape == 0.0:
        return stats.logser.pmf(k, 1.0 - gamma)
    above_zero = -math.expm1(runs.shape * math.log(gamma))
    return stats.nbinom.pmf(k, runs.shape, gamma) / above_zero


def misfit(drawn: np.ndarray, runs: NumberOfRuns) -> float:
    """p-value of a chi-square test against the probabilities, tails pooled."""
    probabilities = law_of(runs, 5000)
    expected = probabilities * len(drawn)
    last = max(1, int(np.argmax(expected < 20.0)))
    observed = np.bincount(np.minimum(drawn, last + 1), minlength=last + 2)[1 : last + 2]
    wanted = np.append(expected[:last], len(drawn) - expected[:last].sum())
    return float(stats.chisquare(observed, wanted).pvalue)


@pytest.mark.parametrize(
    ("mean", "shape"),
    [
        (10, 1),
        (4, 0.5),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((10, 0), (6, 2.5))),
        pytest.param(1.5, 0.1, marks=pytest.mark.slow),
        pytest.param(6, 1e-9, marks=pytest.mark.slow),
    ],
)
def test_drawn_numbers_follow_the_stated_law(mean: float, shape: float) -> None:
    runs = NumberOfRuns(float(mean), float(shape))
    generator = NoiseSource().sampling
    drawn = np.array([runs.draw(generator) for _ in range(20_000)])
    assert misfit(drawn, runs) > 1e-6
    # A draw that is cut short is noticed: the test has power.
    assert misfit(np.minimum(drawn, 2 * math.ceil(mean)), runs) < 1e-6


@pytest.mark.parametrize(("mean", "shape"), [(1.0 + 1e-7, 0.01), (1.001, 1e-12), (1.0, 0.5)])
def test_searches_of_hardly_more_than_one_run_are_drawn_at_once(mean: float, shape: float) -> None:
    runs, generator = NumberOfRuns(mean, shape), NoiseSource().sampling
    drawn = [runs.draw(generator) for _ in range(1000)]
    assert drawn.count(1) > 980  # fails once in 10^20 at a mean of 1.001


class OneNumber:
    """A generator that draws what it was given."""

    def __init__(self, number: float) -> None:
        self.random = lambda: number


@pytest.mark.parametrize(
    ("mean", "shape"), [(10.0, 1e-4), (6.0, 1e-9), (1000.0, 1e-12), (3.0, 1e-25), (1.5, 1e-300)]
)
def test_draws_by_inversion_are_those_of_the_distribution_function(mean, shape) -> None:
    runs = NumberOfRuns(mean, shape)
    numbers = np.random.default_rng(0).random(200)
    k = np.arange(1, 100_000)  # at so small a shape the law is the recurrence of its ratios
    ratios = (1.0 - runs.gamma) * (k + shape) / (k + 1.0)
    law = np.cumprod(np.append(1.0, ratios))
    wanted = np.searchsorted(np.cumsum(law) / law.sum(), numbers, side="right") + 1
    assert [runs.draw(OneNumber(number)) for number in numbers] == wanted.tolist()
    assert runs.draw(OneNumber(0.0)) == 1


@pytest.mark.parametrize(("mean", "shape"), [(10, 1), (50, 0), (4, 0.5), (6, 2.5)])
def test_probabilities_add_up_and_have_the_mean(mean: float, shape: float) -> None:
    law = law_of(NumberOfRuns(float(mean), float(shape)), 200_000)
    assert law.sum() == pytest.approx(1.0, abs=1e-9)
    assert law @ np.arange(1, 200_001) == pytest.approx(mean, rel=1e-6)


def test_parameter_that_gives_the_mean() -> None:
    assert NumberOfRuns(10.0, 0.0).gamma == pytest.approx(0.0269183, abs=1e-7)
    assert NumberOfRuns(10.0, 0.5).gamma == pytest.approx(0.0625, abs=1e-9)
    assert NumberOfRuns(10.0, 1.0).gamma == pytest.approx(0.1, abs=1e-12)
    single = NumberOfRuns(1.0, 1.0)
    assert single.gamma == 1.0
    assert {single.draw(NoiseSource().sampling) for _ in range(100)} == {1}


@pytest.mark.parametrize(
    ("mean", "shape", "expected"),
    [(10, 0, 3.522633), (50, 0, 4.081271), (10, 0.5, 3.830596), (50, 0.5, 4.521442),
     (10, 1, 4.103271), (50, 1, 4.941831)],
)  # fmt: skip
def test_reference_values_of_repeat_and_select(mean, shape, expected) -> None:
    event = NumberOfRuns(float(mean), float(shape)).event(BASE)
    assert event_epsilon(event, 1e-5) == pytest.approx(expected, abs=1e-5)


def test_our_curve_is_what_the_accountant_charges() -> None:
    from dp_accounting.rdp import compute_epsilon

    for mean, shape in ((10, 1), (10, 0), (3, 2)):
        runs = NumberOfRuns(float(mean), float(shape))
        total = compute_epsilon(ORDERS, selected_curve(curve(BASE), runs), 1e-5)[0]
        charged = event_epsilon(runs.event(BASE), 1e-5)
        # Ours is exact between whole orders, where the library is a little above.
        assert charged * 0.999 <= total <= charged * (1 + 1e-9)


def best_of_random_runs(chance: float, runs: NumberOfRuns) -> float:
    """Chance that the best of a random number of coins shows its better side."""
    law = law_of(runs, 100_000)
    return 1.0 - float(law @ (1.0 - chance) ** np.arange(1, 100_001))


def divergence(p: float, q: float, order: float) -> float:
    sides = [order * math.log(a) + (1 - order) * math.log(b) for a, b in ((p, q), (1 - p, 1 - q))]
    return float(np.logaddexp(*sides)) / (order - 1)


@pytest.mark.parametrize(("mean", "shape"), [(10, 1), (10, 0), (30, 0.5)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_exact_loss_of_a_search_over_coins_is_within_the_charge(mean, shape, epsilon) -> None:
    runs = NumberOfRuns(float(mean), float(shape))
    one_run = pure_curve(epsilon)
    charge = selected_curve(one_run, runs)
    worst = -math.inf
    for p in (1e-3, 0.03, 0.2, math.exp(epsilon) / (1 + math.exp(epsilon))):
        q = p * math.exp(-epsilon)
        if 1 - p < (1 - q) * math.exp(-epsilon):
            continue
        with_, without = (best_of_random_runs(chance, runs) for chance in (p, q))
        for order, allowed, single in zip(ORDERS, charge, one_run, strict=True):
            exact = max(divergence(with_, without, order), divergence(without, with_, order))
            assert exact <= allowed * (1 + 1e-9)
            worst = max(worst, exact - single)
        # Pure: at most (2 + shape) times the loss of a run.
        assert abs(math.log(with_ / without)) <= (2 + shape) * epsilon
    # Charging one run alone would be false.
    assert worst > 0.0


def test_tails_that_the_documentation_of_a_search_names() -> None:
    """With mean 10: above 43 once in a hundred, and half of the logarithmic ones at most 4."""
    assert 1.0 - law_of(NumberOfRuns(10.0, 1.0), 43).sum() == pytest.approx(0.01, abs=1e-3)
    three, four = (law_of(NumberOfRuns(10.0, 0.0), k).sum() for k in (3, 4))
    assert three < 0.5 < four
