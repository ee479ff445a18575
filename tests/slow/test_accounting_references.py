"""Reference numbers of the accounting, and agreement with an independent integral at random."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from skfairdp.privacy import CountRelease, epsilon, epsilons, noise_multiplier_for
from skfairdp.privacy.accounting import events
from tests.privacy.oracle import oracle_epsilons
from tests.privacy.plans import DELTA, fairdp_plan, maker, sgd_plan

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("rate", "multiplier", "steps", "by_losses", "by_renyi"),
    [
        (0.01, 1.1, 1000, 1.5154, 1.7118),
        (0.05, 2.0, 500, 2.5320, 2.7686),
        (256 / 32561, 1.0, 3000, 2.4423, 2.6985),
    ],
)
def test_both_accountants_print_their_reference(rate, multiplier, steps, by_losses, by_renyi):
    plan = sgd_plan(rate, multiplier, steps)
    assert epsilon(plan) == pytest.approx(by_losses, abs=5e-5)
    (event,) = events(plan)
    assert RdpAccountant().compose(event).get_epsilon(DELTA) == pytest.approx(by_renyi, abs=5e-5)


@pytest.mark.parametrize(("shape", "expected"), [(1.0, 4.1033), (0.0, 3.5226)])
def test_repeat_and_select(shape, expected):
    base = events(sgd_plan(0.01, 1.0, 1000))[0]
    search = dp_event.RepeatAndSelectDpEvent(base, 10.0, shape)
    assert epsilon(search, DELTA) == pytest.approx(expected, abs=5e-5)


def random_plan(generator: np.random.Generator):
    n_cells = int(generator.integers(1, 4))
    sizes = tuple(int(size) for size in np.exp(generator.uniform(5, 11, n_cells)))
    rates = tuple(float(rate) for rate in np.exp(generator.uniform(math.log(1e-3), 0, n_cells)))
    multiplier = float(np.exp(generator.uniform(math.log(0.7), math.log(20))))
    steps = int(np.exp(generator.uniform(0, math.log(5000))))
    return fairdp_plan(sizes, rates, multiplier, steps)


@pytest.mark.parametrize("seed", range(25))
def test_random_plans_agree_with_the_independent_integral(seed):
    plan = random_plan(np.random.default_rng(seed))
    ours, expected = epsilons(plan), oracle_epsilons(plan, plan.delta)
    for cell in plan.cells:
        assert ours[cell] == pytest.approx(expected[cell], rel=0.01, abs=1e-3)
        assert ours[cell] >= expected[cell] * (1 - 3e-3) - 1e-4


@pytest.mark.parametrize("target", [0.01, 0.3, 1.0, 8.0, 50.0])
@pytest.mark.parametrize(("rate", "steps"), [(1e-3, 1), (1e-3, 50_000), (0.1, 300), (1.0, 20)])
@pytest.mark.parametrize("counts", [(), (CountRelease(name="table", epsilon=0.004),)])
def test_calibration_over_the_whole_range(target, rate, steps, counts):
    make_plan = maker(rate, steps, counts=counts, delta=1e-6)
    reached = epsilon(make_plan(noise_multiplier_for(target, 1e-6, make_plan)))
    assert 0.995 * target <= reached <= target
