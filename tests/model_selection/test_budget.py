"""Renyi curves against independent integrals; the score hides behind the fits at every order."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event

from skfairdp.model_selection.budget import search_budget
from skfairdp.model_selection.number_of_runs import NumberOfRuns, curve, pure_curve, selected_curve
from skfairdp.privacy import Block, Plan, Segment
from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.accounting.events import covering_event
from skfairdp.privacy.accounting.table import renyi_form


def plan(rate: float, steps: int):
    def make(sigma: float) -> Plan:
        block = Block(name="gradient", max_norm=1.0, weights=(1.0,), noise_std=sigma)
        return Plan(
            cells=("all",),
            segments=(
                Segment(steps=steps, rates=(rate,), expected_sizes=(100.0,), blocks=(block,)),
            ),
            delta=1e-5,
            adjacency="zero-out",
        )

    return make


@pytest.mark.parametrize(
    ("rate", "sigma", "order"),
    [
        *((0.01, 1.0, order) for order in (1.1, 1.7, 2.0, 5.5, 32.0)),
        (0.5, 27.0, 1.1),
        (0.5, 27.0, 32.0),
        (0.1, 0.7, 1.7),
        (0.1, 0.7, 5.5),
        (0.002, 1.9, 2.0),
    ],
)
def test_curve_is_the_integral(rate: float, sigma: float, order: float) -> None:
    event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma))
    found = curve(event, np.array([order]))[0]

    def ratio_power(x: mpmath.mpf) -> mpmath.mpf:
        ratio = 1 - rate + rate * mpmath.e ** ((2 * x - 1) / (2 * mpmath.mpf(sigma) ** 2))
        return mpmath.npdf(x, 0, sigma) * ratio**order

    with mpmath.workdps(30):
        points = [-16 * sigma, -4 * sigma, 0, 4 * sigma, order, order + 16 * sigma]
        exact = mpmath.log(mpmath.quad(ratio_power, sorted(points))) / (order - 1)
    assert found == pytest.approx(float(exact), rel=1e-6)


@pytest.mark.parametrize(
    ("mean", "shape", "epsilon"),
    [(10, 1, 0.3), (10, 1, 1.0), (10, 1, 5.0), (10, 0, 0.3), (1, 1, 1.0), (40, 2, 5.0)],
)
def test_a_budget_is_met_and_the_score_costs_no_more(mean, shape, epsilon) -> None:
    runs = NumberOfRuns(float(mean), float(shape))
    budget = search_budget(plan(0.01, 500), runs, epsilon, 1e-5)
    assert 0.99 * epsilon <= budget.epsilon <= epsilon
    assert budget.epsilon == event_epsilon(runs.event(budget.event), 1e-5)
    total = budget.score_epsilon * ((2 + shape) if mean > 1 else 1)
    limit = selected_curve(curve(budget.event), runs)
    assert np.all(pure_curve(total) <= limit)
    assert not np.all(pure_curve(1.05 * total) <= limit)


@pytest.mark.parametrize(("rate", "steps"), [(0.01, 500), (0.1, 50), (0.002, 3000), (1.0, 20)])
def test_every_candidate_stays_below_the_common_event(rate: float, steps: int) -> None:
    budget = search_budget(plan(0.01, 500), NumberOfRuns(10.0, 1.0), 1.0, 1e-5)
    make = plan(rate, steps)
    multiplier = budget.multiplier_for(make)
    limit = curve(budget.event)
    assert np.all(curve(covering_event(make(multiplier))) <= limit)
    # With a tenth less noise it does not, so nothing was wasted on a rule of thumb.
    assert not np.all(curve(covering_event(make(0.9 * multiplier))) <= limit)


def test_an_impossible_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="n_iter=1e\\+06.*epsilon=0.01"):
        search_budget(plan(0.01, 500), NumberOfRuns(1e6, 1.0), 0.01, 1e-5)


def test_counts_with_discrete_laplace_noise_are_charged_as_pure_by_the_renyi_accountant() -> None:
    for epsilon in (0.05, 0.2, 0.5, 2.0):
        event = dp_event.DiscreteLaplaceDpEvent(epsilon, 1)
        assert np.all(pure_curve(epsilon) <= curve(event) * (1 + 1e-12))
    nested = dp_event.RepeatAndSelectDpEvent(dp_event.DiscreteLaplaceDpEvent(0.1, 1), 10.0, 1.0)
    assert 0.1 < event_epsilon(nested, 1e-5) < 1.5
    both = dp_event.ComposedDpEvent([nested, dp_event.SelfComposedDpEvent(nested, 2)])
    assert event_epsilon(nested, 1e-5) < event_epsilon(both, 1e-5)
    untouched = dp_event.GaussianDpEvent(1.0)
    assert renyi_form(untouched) == untouched


def test_an_event_without_a_known_curve_is_refused() -> None:
    with pytest.raises(ValueError, match="LaplaceDpEvent cannot be searched over"):
        curve(dp_event.LaplaceDpEvent(1.0))
