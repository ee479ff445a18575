"""Tests of the cost of vector sums with Laplace noise, alone and with other releases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy import stats

from skfairdp.privacy import LaplaceSum, NoiseSource, Plan, noise_multiplier_for
from skfairdp.privacy.accounting.plan_cost import covering_event, epsilon, epsilons, guarantee
from tests.privacy.oracle import oracle_epsilons
from tests.privacy.plans import DELTA, sgd_plan

AGREEMENT = 4e-3


def plan_of(*scales, weights=(1.0, 0.25), cells=("u", "v"), delta=DELTA):
    sums = tuple(
        LaplaceSum(name=f"sum {i}", max_norm=2.0, weights=weights, scale=s)
        for i, s in enumerate(scales)
    )
    return Plan(
        cells=cells,
        segments=(),
        counts=(),
        adjacency="zero-out",
        delta=delta,
        prior_epsilon=0.0,
        sums=sums,
    )


def test_one_sum_costs_its_weighted_norm_over_the_scale():
    costs = epsilons(plan_of(4.0))
    # delta takes off what a pure mechanism spends above it, some 3e-5 of epsilon here.
    assert costs["u"] == pytest.approx(0.5, rel=2e-4)
    assert costs["v"] == pytest.approx(0.125, rel=2e-3)


@pytest.mark.parametrize("scales", [(4.0,), (4.0, 7.0), (1.0, 30.0)])
def test_costs_agree_with_an_independent_integral(scales):
    plan = plan_of(*scales)
    expected = oracle_epsilons(plan, DELTA)
    for cell, cost in epsilons(plan).items():
        assert cost == pytest.approx(expected[cell], rel=AGREEMENT)


def test_a_sum_beside_noisy_steps_adds_to_them():
    steps = sgd_plan(0.01, 1.1, 1000)
    both = replace(steps, sums=(LaplaceSum(name="sum", max_norm=1.0, weights=(1.0,), scale=5.0),))
    cost = epsilon(both)
    assert max(epsilon(steps), 0.2) < cost <= epsilon(steps) + 0.2
    assert cost == pytest.approx(max(oracle_epsilons(both, DELTA).values()), rel=AGREEMENT)


def test_the_event_covers_every_cell_and_survives_json():
    plan = plan_of(4.0, weights=(0.25, 1.0))
    assert covering_event(plan) == dp_event.DiscreteLaplaceDpEvent(0.5, 1)
    stated = guarantee(plan)
    assert stated.epsilon == max(epsilons(plan).values())
    assert type(stated).from_dict(stated.to_dict()) == stated


def test_a_sum_without_noise_promises_nothing():
    plan = plan_of(0.0)
    assert plan.noiseless
    assert math.isinf(epsilon(plan))
    assert guarantee(plan).is_void


def test_a_cell_that_a_sum_leaves_out_pays_nothing():
    assert epsilons(plan_of(4.0, weights=(1.0, 0.0)))["v"] == 0.0


@pytest.mark.parametrize("target", [0.1, 1.0, 5.0])
def test_calibration_meets_the_target(target):
    multiplier = noise_multiplier_for(target, DELTA, lambda m: plan_of(2.0 * m, 8.0 * m))
    assert 0.995 * target <= epsilon(plan_of(2.0 * multiplier, 8.0 * multiplier)) <= target


def test_randomised_response_dominates_the_vector_of_laplace_noises():
    # The reason for charging a pure event: brute force over how a shift of L1 norm 1 is
    # divided among coordinates, at several epsilon, by Monte Carlo.
    rng = np.random.default_rng(0)
    z = rng.laplace(size=(400_000, 3))
    for shift in ([1, 0, 0], [0.5, 0.5, 0], [0.6, 0.3, 0.1], [1 / 3, 1 / 3, 1 / 3]):
        loss = (np.abs(z - np.array(shift)) - np.abs(z)).sum(axis=1)
        assert np.abs(loss).max() <= 1 + 1e-12
        for eps in (0.0, 0.3, 0.9):
            spent = np.maximum(0.0, 1.0 - np.exp(eps - loss)).mean()
            dominating = (math.e - math.exp(eps)) / (1 + math.e)
            assert spent <= dominating + 5 / math.sqrt(len(z))


def test_laplace_noise_has_its_scale_and_is_added_in_whole_steps():
    sums = np.full((200, 100), 1.0 / 3.0)
    values = NoiseSource().laplace_on_grid(sums, 3.0)
    assert values.shape == (200, 100)
    # Fails by chance with a probability of 1e-9.
    assert stats.kstest((values - sums).ravel(), stats.laplace(scale=3.0).cdf).pvalue > 1e-9
    steps = values / (3.0 * 2.0**-32)
    assert np.array_equal(steps, np.rint(steps))
    floats = sums + 3.0 * np.random.default_rng(0).laplace(size=sums.shape)  # the twin
    assert not np.array_equal(floats / (3.0 * 2.0**-32), np.rint(floats / (3.0 * 2.0**-32)))
    with pytest.raises(ValueError, match="std=-1"):
        NoiseSource().laplace_on_grid(np.zeros(3), -1.0)
    assert np.array_equal(NoiseSource().laplace_on_grid(sums, 0.0), sums)


def test_rounding_to_the_grid_is_charged_for_each_number_of_a_sum():
    released = LaplaceSum(name="s", max_norm=1.0, weights=(1.0, 0.0), scale=2.0, numbers=5000)
    cells = ("a", "b")
    plan = Plan(cells=cells, segments=(), sums=(released,), adjacency="zero-out", delta=0.0)
    assert plan.charged_epsilon(released, 0) == released.epsilon(0) == 0.5
    exact = replace(plan, exact_noise=True)
    assert exact.charged_epsilon(released, 0) == 0.5 + 5000 * 2.0**-31
    assert exact.charged_epsilon(released, 1) == 0.0
    assert epsilon(plan, 1e-9) < epsilon(exact, 1e-9) < epsilon(plan, 1e-9) * (1.0 + 1e-3)
