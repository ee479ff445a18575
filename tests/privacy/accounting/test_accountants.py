"""Cost of a change of one person's sensitive attribute: the product of two directions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy.integrate import quad
from scipy.stats import norm

from skfairdp.privacy import (
    Block,
    CountRelease,
    Plan,
    PrivacyGuarantee,
    Segment,
    compose,
    epsilon,
    epsilons,
    noise_multiplier_for,
)
from skfairdp.privacy.accounting.accountants import both_directions
from skfairdp.privacy.accounting.plan_cost import guarantee
from tests.privacy.accounting.test_plan_cost import AGREEMENT, gaussian_epsilon
from tests.privacy.oracle import oracle_change_epsilon
from tests.privacy.plans import DELTA, fairdp_plan, maker, sgd_plan

CHANGE = "change-attribute"


def sampled(rate: float, multiplier: float, steps: int) -> dp_event.DpEvent:
    step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(multiplier))
    return dp_event.SelfComposedDpEvent(step, steps)


def test_reference_values_of_the_product() -> None:
    event = sampled(0.01, 1.1, 1000)
    assert epsilon(event, DELTA, CHANGE) == pytest.approx(2.0277, abs=5e-5)
    by_renyi = (
        RdpAccountant().compose(both_directions(event, "change-attribute")).get_epsilon(DELTA)
    )
    assert by_renyi == pytest.approx(2.3809, abs=5e-5)


def test_one_step_by_an_integral_over_both_cells() -> None:
    """Hockey-stick divergence of the two-dimensional pair, without any loss distribution."""
    rate, sigma = 0.3, 1.0

    def density(x: float, drawn: bool) -> float:
        plain = norm.pdf(x, 0, sigma)
        return (1 - rate) * plain + rate * norm.pdf(x, 1, sigma) if drawn else plain

    grid = np.linspace(-9, 10, 1901)
    width = grid[1] - grid[0]
    with_record, without = density(grid, True) * width, density(grid, False) * width
    left, right = np.multiply.outer(with_record, without), np.multiply.outer(without, with_record)
    for target, delta in ((0.2, 0.09084), (0.5, 0.04083)):
        exact = np.maximum(left - math.exp(target) * right, 0.0).sum()
        assert exact == pytest.approx(delta, abs=5e-6)
        assert target <= epsilon(sampled(rate, sigma, 1), exact - 1e-6, CHANGE) <= target + 1e-3
    assert quad(density, -9, 10, args=(True,))[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "product", "replaced"),
    [(0.01, 1.1, 1000, 2.0277, 2.4778), (0.05, 2.0, 500, 3.5632, 4.9808)],
)
def test_a_sum_that_was_signed_before_the_noise_costs_more(rate, sigma, steps, product, replaced):
    """Charging the product for one noise on S_u - S_v would print too little."""
    plan = sgd_plan(rate, sigma, steps)
    assert epsilon(plan, adjacency=CHANGE) == pytest.approx(product, abs=5e-5)
    assert epsilon(plan, adjacency="replace-one") == pytest.approx(replaced, abs=5e-5)


@pytest.mark.parametrize("multiplier", [0.5, 4.0, 50.0])
def test_full_batches_are_one_gaussian_query_of_sensitivity_root_two(multiplier: float) -> None:
    expected = gaussian_epsilon(multiplier / math.sqrt(2 * 7), DELTA)
    found = epsilon(sgd_plan(1.0, multiplier, 7, adjacency=CHANGE))
    assert found == pytest.approx(expected, rel=1e-3)
    assert found >= expected - 1e-9


@pytest.mark.parametrize(
    "plan",
    [
        sgd_plan(0.01, 1.1, 1000, adjacency=CHANGE),
        sgd_plan(0.3, 10.0, 500, delta=1e-9, adjacency=CHANGE),
        sgd_plan(1e-3, 0.5, 1, delta=1e-6, adjacency=CHANGE),
        sgd_plan(
            0.01,
            1.1,
            1000,
            counts=(CountRelease(name="table", epsilon=0.5, releases=2),),
            adjacency=CHANGE,
        ),
    ],
    ids=lambda plan: f"{plan.steps}steps-{len(plan.counts)}counts",
)
def test_plans_agree_with_the_independent_integral(plan: Plan) -> None:
    assert epsilon(plan) == pytest.approx(oracle_change_epsilon(plan, plan.delta), rel=AGREEMENT)


def test_two_unequal_cells_are_covered_in_either_order() -> None:
    plan = replace(fairdp_plan((100, 1000), (0.05, 0.01), 1.5, 300), adjacency=CHANGE)
    costs = epsilons(plan)
    assert len(set(costs.values())) == 1
    assert max(costs.values()) >= oracle_change_epsilon(plan, DELTA) * (1 - AGREEMENT)
    assert guarantee(plan, protects="sensitive_features").per_group is None


def test_declining_to_disclose_costs_less_than_changing() -> None:
    plan = sgd_plan(0.01, 1.1, 1000)
    assert epsilon(plan, adjacency="add-remove") < epsilon(plan, adjacency=CHANGE)


@pytest.mark.parametrize("rate", [0.02, 1.0])
@pytest.mark.parametrize("counts", [(), (CountRelease(name="table", epsilon=0.01),)])
def test_calibration_meets_a_target(rate: float, counts: tuple) -> None:
    make_plan = maker(rate, 200, counts=counts, adjacency=CHANGE)
    reached = epsilon(make_plan(noise_multiplier_for(1.0, DELTA, make_plan)))
    assert 0.995 <= reached <= 1.0


def test_guarantees_for_an_attribute_compose_and_survive_json() -> None:
    stated = guarantee(sgd_plan(0.01, 1.1, 1000, adjacency=CHANGE), protects="sensitive_features")
    again = PrivacyGuarantee.from_dict(stated.to_dict())
    assert again == stated
    both = compose([stated, again])
    assert (both.adjacency, both.protects) == (CHANGE, "sensitive_features")
    assert both.epsilon == pytest.approx(epsilon(sgd_plan(0.01, 1.1, 2000, adjacency=CHANGE)))
    record = replace(stated, adjacency="zero-out", protects="record")
    with pytest.raises(ValueError, match="different relations"):
        compose([stated, record])


def test_a_promise_without_an_event_is_added() -> None:
    """It speaks of both cells already; entering it as an event would charge it twice."""
    stated = guarantee(sgd_plan(0.01, 1.1, 1000, adjacency=CHANGE), protects="sensitive_features")
    plain = PrivacyGuarantee(0.5, 0.0, CHANGE, "sensitive_features")
    both = compose([stated, plain])
    assert both.epsilon == pytest.approx(stated.epsilon + 0.5)
    assert both.event is None


def test_a_search_is_answered_by_renyi_divergences_of_both_directions() -> None:
    base = sampled(0.01, 1.0, 1000)
    search = dp_event.RepeatAndSelectDpEvent(base, mean=10.0, shape=1.0)
    assert epsilon(search, DELTA, CHANGE) > epsilon(search, DELTA)


def test_the_published_sensitivity_is_exceeded() -> None:
    """Theorems 1 and 2 of PF-LD: C / (|B| - 1) for the mean of |h| <= C with and without z."""
    clip, size = 1.0, 10
    values = np.full(size, -clip)
    values[0] = clip  # z
    moved = abs(values.mean() - values[1:].mean())
    assert moved > 1.7 * clip / (size - 1)
    assert moved == pytest.approx(2 * clip / size)
    rng = np.random.default_rng(0)
    for _ in range(200):
        drawn = rng.uniform(-clip, clip, size)
        assert abs(drawn.mean() - drawn[1:].mean()) <= 2 * clip / size + 1e-12


def test_both_blocks_of_a_cell_are_one_query() -> None:
    """A gradient of .95 and a table of .3 of the norm together are one vector of norm 1."""
    share = 0.3
    blocks = (
        Block(
            name="gradient",
            max_norm=2.0,
            weights=(0.1,) * 2,
            noise_std=0.2 * 1.1 / math.sqrt(1 - share**2),
        ),
        Block(name="table", max_norm=1.0, weights=(0.1,) * 2, noise_std=0.1 * 1.1 / share),
    )
    plan = Plan(
        cells=("a", "b"),
        segments=(
            Segment(steps=1000, rates=(0.01,) * 2, expected_sizes=(5.0,) * 2, blocks=blocks),
        ),
        counts=(),
        adjacency=CHANGE,
        delta=DELTA,
    )
    assert epsilon(plan) == pytest.approx(2.0277, abs=5e-5)
