"""Costs of plans: reference values, an independent integral, and what must not be free."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq
from scipy.stats import norm

from skfairdp.privacy import Block, CountRelease, Plan, PrivacyGuarantee, Segment
from skfairdp.privacy.accounting.events import FailureDpEvent, undominated_cells
from skfairdp.privacy.accounting.plan_cost import (
    accountant_name,
    compose,
    covering_event,
    epsilon,
    epsilons,
    events,
    guarantee,
)
from tests.privacy.oracle import oracle_epsilon, oracle_epsilons
from tests.privacy.plans import DELTA, fairdp_plan, sgd_plan

# The oracle rounds to nearest and the library rounds up, both on a grid.
AGREEMENT = 4e-3


def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """Exact epsilon of one Gaussian query (Balle and Wang, 2018)."""
    mu = 1 / multiplier

    def excess(eps: float) -> float:
        tail = norm.sf(eps / mu - mu / 2) - math.exp(eps) * norm.sf(eps / mu + mu / 2)
        return float(tail) - delta

    return brentq(excess, 0.0, 200.0)


@pytest.mark.parametrize(
    ("rate", "multiplier", "steps", "expected"),
    [(0.01, 1.1, 1000, 1.5154), (0.05, 2.0, 500, 2.5320), (256 / 32561, 1.0, 3000, 2.4423)],
)
def test_reference_values_of_the_sampled_gaussian(rate, multiplier, steps, expected):
    assert epsilon(sgd_plan(rate, multiplier, steps)) == pytest.approx(expected, abs=5e-5)


def test_reference_values_of_fairdp_by_what_leaves_a_step():
    sizes, rates = (10771, 21790), (0.01, 0.01)
    published = fairdp_plan(sizes, rates, 1.2, 1000, published=True)
    ours = fairdp_plan(sizes, rates, 1.2, 1000)
    assert epsilon(published) == pytest.approx(1.2986, abs=5e-5)
    assert list(epsilons(ours).values()) == pytest.approx([1.0877, 0.4283], abs=5e-5)
    assert epsilon(published, adjacency="replace-one") == pytest.approx(2.2058, abs=5e-5)
    replaced = epsilons(ours, adjacency="replace-one")
    assert list(replaced.values()) == pytest.approx([1.9221, 0.8608], abs=5e-5)


def test_two_blocks_on_one_batch_are_one_event():
    """DPSGD-F: counts and gradient of one batch; two separate events would print 2.87."""
    blocks = (
        Block(name="counts", max_norm=1.0, weights=(1.0,), noise_std=1.0),
        Block(name="gradient", max_norm=3.0, weights=(1.0,), noise_std=3.0),
    )
    plan = Plan(
        cells=("all",),
        segments=(Segment(steps=1000, rates=(0.01,), expected_sizes=(100.0,), blocks=blocks),),
        delta=DELTA,
        adjacency="zero-out",
    )
    assert epsilon(plan) == pytest.approx(4.4808, abs=5e-5)
    (event,) = events(plan)
    by_renyi = RdpAccountant().compose(event).get_epsilon(DELTA)
    assert by_renyi == pytest.approx(5.2612, abs=5e-5)


@pytest.mark.parametrize("kind", [int, float])
def test_integer_multipliers_inside_a_composed_sampled_event_are_not_a_discount(kind):
    """dp_accounting alone prints .1097 by RDP for the integers."""
    pair = dp_event.ComposedDpEvent(
        [dp_event.GaussianDpEvent(kind(10)), dp_event.GaussianDpEvent(kind(1))]
    )
    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.01, pair), 1000)
    assert epsilon(event, DELTA) == pytest.approx(1.8474, abs=5e-5)


def test_the_library_still_needs_the_guard_for_integers():
    """When this fails the trap is gone from dp_accounting, and the comments can go too."""
    pair = dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(10), dp_event.GaussianDpEvent(1)])
    event = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.01, pair), 1000)
    assert RdpAccountant().compose(event).get_epsilon(DELTA) == pytest.approx(0.1097, abs=5e-5)


@pytest.mark.parametrize(
    "plan",
    [
        sgd_plan(0.01, 1.1, 1000),
        sgd_plan(0.3, 10.0, 500, delta=1e-9),
        sgd_plan(1.0, 4.0, 1, delta=1e-6),
        sgd_plan(1e-3, 0.5, 1, delta=1e-6),
        sgd_plan(0.01, 686.0, 50_000, delta=1e-6),
        sgd_plan(0.01, 1.1, 1000, counts=(CountRelease(name="table", epsilon=0.5, releases=2),)),
        sgd_plan(0.01, 1.1, 0, counts=(CountRelease(name="table", epsilon=0.1, releases=30),)),
        fairdp_plan((100, 1000, 5000), (0.05, 0.02, 0.01), 1.5, 400),
    ],
    ids=lambda plan: f"{plan.steps}steps-{len(plan.cells)}cells-{len(plan.counts)}counts",
)
def test_every_cell_agrees_with_the_independent_integral(plan):
    expected = oracle_epsilons(plan, plan.delta)
    assert epsilons(plan) == pytest.approx(expected, rel=AGREEMENT)


def test_segments_compose():
    first, second = sgd_plan(0.02, 1.3, 300).segments[0], sgd_plan(0.005, 0.9, 800).segments[0]
    plan = Plan(cells=("all",), segments=(first, second), delta=DELTA, adjacency="zero-out")
    assert epsilon(plan) == pytest.approx(oracle_epsilon(plan, DELTA), rel=AGREEMENT)
    assert epsilon(plan) > epsilon(replace(plan, segments=(first,)))


@pytest.mark.parametrize(
    "wrong", [sgd_plan(0.0102, 1.1, 1000), sgd_plan(0.01, 1.08, 1000), sgd_plan(0.01, 1.1, 1040)]
)
def test_the_independent_integral_notices_two_percent_of_rate_noise_or_four_of_steps(wrong):
    right = oracle_epsilon(sgd_plan(0.01, 1.1, 1000), DELTA)
    assert abs(epsilon(wrong) / right - 1) > 2 * AGREEMENT


@pytest.mark.parametrize("multiplier", [0.2, 1.0, 3.0, 50.0])
def test_full_batches_agree_with_the_closed_form_of_the_gaussian_query(multiplier):
    expected = gaussian_epsilon(multiplier / math.sqrt(7), DELTA)
    plan = sgd_plan(1.0, multiplier, 7)
    assert epsilon(plan) == pytest.approx(expected, rel=1e-3)
    assert epsilon(plan) >= expected - 1e-9


def test_small_losses_per_step_are_not_rounded_up_to_the_libraries_grid():
    """Many quiet steps are nearly one Gaussian query; the default grid adds a fifth."""
    plan = sgd_plan(0.01, 150.0, 50_000)
    nearly = gaussian_epsilon(150 / (0.01 * math.sqrt(50_000)), DELTA)
    assert epsilon(plan) == pytest.approx(nearly, rel=5e-3)


def test_zero_out_costs_what_add_remove_costs():
    plan = fairdp_plan((100, 1000), (0.05, 0.01), 1.5, 300)
    counted = replace(plan, counts=(CountRelease(name="table", epsilon=0.3),))
    assert epsilons(counted, adjacency="zero-out") == epsilons(counted, adjacency="add-remove")


def test_hardly_any_noise_costs_much_but_neither_memory_nor_nothing():
    assert epsilon(sgd_plan(0.1, 0.02, 100)) > 1e4


def test_a_plan_without_noise_costs_infinity_and_is_void():
    plan = sgd_plan(0.01, 0.0, 10)
    assert epsilon(plan) == math.inf
    stated = guarantee(plan)
    assert stated.is_void
    assert "without noise" in stated.assumptions[0]
    assert not stated.satisfies(math.inf)


def test_counts_without_noise_cost_infinity():
    assert (
        epsilon(sgd_plan(0.01, 1.0, 10, counts=(CountRelease(name="t", epsilon=math.inf),)))
        == math.inf
    )


def test_a_cell_that_no_block_touches_costs_nothing():
    block = Block(name="gradient", max_norm=1.0, weights=(1.0, 0.0), noise_std=1.0)
    plan = Plan(
        cells=("a", "b"),
        segments=(
            Segment(steps=10, rates=(0.1, 0.1), expected_sizes=(10.0, 10.0), blocks=(block,)),
        ),
        adjacency="zero-out",
        delta=1e-6,
    )
    assert epsilons(plan)["b"] == 0.0
    assert epsilons(plan)["a"] > 0.0


def test_an_empty_plan_costs_nothing():
    assert epsilon(Plan(cells=("all",), segments=(), adjacency="zero-out", delta=1e-6)) == 0.0


def test_one_count_table_costs_its_epsilon_at_delta_zero():
    plan = sgd_plan(0.1, 1.0, 0, counts=(CountRelease(name="table", epsilon=0.7, releases=2),))
    assert epsilon(plan, delta=0.0) == pytest.approx(1.4, abs=1e-3)


@pytest.mark.parametrize(("delta", "adjacency"), [(1.0, None), (-0.1, None), (0.1, "nearby")])
def test_bad_arguments_are_named(delta, adjacency):
    with pytest.raises(ValueError, match="delta=|adjacency="):
        epsilon(sgd_plan(0.01, 1.0, 1), delta, adjacency)


@pytest.mark.parametrize(
    "event",
    [
        dp_event.GaussianDpEvent(-1.0),
        dp_event.GaussianDpEvent(math.nan),
        dp_event.PoissonSampledDpEvent(1.5, dp_event.GaussianDpEvent(1.0)),
    ],
)
def test_impossible_events_are_refused(event):
    with pytest.raises(ValueError, match="not allowed"):
        epsilon(event, DELTA)


def test_renyi_answers_where_loss_distributions_refuse():
    base = dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0)), 1000
    )
    search = dp_event.RepeatAndSelectDpEvent(base, mean=10.0, shape=1.0)
    assert epsilon(search, DELTA) == pytest.approx(4.1033, abs=5e-5)
    assert accountant_name(search, DELTA).endswith("RDP")
    assert "PLD" in accountant_name(base, DELTA)


def test_an_event_nobody_accounts_for_is_refused():
    with pytest.raises(ValueError, match="UnsupportedDpEvent"):
        epsilon(dp_event.UnsupportedDpEvent(), DELTA)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_covering_event_is_no_cheaper_than_any_cell_in_any_company(order):
    """One cell is drawn more often, the other has less noise: neither covers the other."""
    weights, rates = (1.0, 2.5), (0.2, 0.01)
    block = Block(
        name="gradient", max_norm=1.0, weights=tuple(weights[k] for k in order), noise_std=2.0
    )
    segment = Segment(
        steps=50, rates=tuple(rates[k] for k in order), expected_sizes=(20.0, 20.0), blocks=(block,)
    )
    plan = Plan(cells=("a", "b"), segments=(segment,), delta=DELTA, adjacency="zero-out")
    assert undominated_cells(plan) == (0, 1)
    cover = covering_event(plan)
    assert cover.event.sampling_probability == 0.2
    assert cover.event.event.noise_multiplier == 0.8
    other = dp_event.GaussianDpEvent(3.0)
    for event in events(plan):
        both, covered = (
            epsilon(dp_event.ComposedDpEvent([part, other]), DELTA) for part in (event, cover)
        )
        assert covered >= both


def test_dominated_cells_are_left_out_and_of_equal_ones_the_first_stays():
    assert undominated_cells(fairdp_plan((100, 1000), (0.01, 0.01), 1.0, 5)) == (0,)
    assert undominated_cells(fairdp_plan((100, 100), (0.01, 0.01), 1.0, 5)) == (0,)


def test_guarantee_states_the_maximum_over_groups():
    stated = guarantee(fairdp_plan((10771, 21790), (0.01, 0.01), 1.2, 1000), assumptions=("x",))
    assert stated.epsilon == max(stated.per_group.values())
    assert set(stated.per_group) == {"g0", "g1"}
    assert epsilon(stated.event, DELTA) == stated.epsilon
    assert stated.assumptions[0] == "x"
    assert guarantee(sgd_plan(0.01, 1.1, 10)).per_group is None


def test_a_plan_made_from_a_private_answer_states_its_budget_or_nothing():
    plan = replace(sgd_plan(0.01, 1.1, 1000), prior_epsilon=0.2)
    assert epsilon(plan) == pytest.approx(0.2 + 1.5154, abs=5e-5)
    assert guarantee(plan, budget=2.0).epsilon == 2.0
    assert guarantee(plan, budget=2.0).event is None
    assert guarantee(plan).is_void
    with pytest.raises(ValueError, match="above its budget"):
        guarantee(plan, budget=1.6)


def test_composition_is_that_of_the_events():
    one = guarantee(sgd_plan(0.01, 1.1, 1000))
    both = compose([one, one])
    assert both.epsilon == pytest.approx(epsilon(sgd_plan(0.01, 1.1, 2000)), rel=1e-9)
    assert both.epsilon < 2 * one.epsilon
    assert compose([one]) is one


def test_a_guarantee_without_event_composes_as_its_epsilon_and_delta():
    stated = PrivacyGuarantee(1.0, 1e-6, "zero-out")
    both = compose([stated, stated])
    assert both.delta == pytest.approx(2e-6)
    assert both.epsilon == pytest.approx(2.0, abs=1e-3)
    assert both.event is None
    with pytest.raises(ValueError, match="without an event"):
        compose([stated, stated], delta=1e-6)
    trained = guarantee(sgd_plan(0.01, 1.1, 1000))
    assert compose([stated, trained]).epsilon <= 1.0 + trained.epsilon


def test_different_relations_have_no_total():
    one = guarantee(sgd_plan(0.01, 1.1, 10))
    for other in (
        replace(one, adjacency="add-remove"),
        replace(one, protects="sensitive_features"),
    ):
        with pytest.raises(ValueError, match="different relations"):
            compose([one, other])
    with pytest.raises(ValueError, match="at least one"):
        compose([])


def test_a_void_part_voids_the_total_and_keeps_the_reason():
    one = guarantee(sgd_plan(0.01, 1.1, 10, adjacency="add-remove"))
    total = compose([one, PrivacyGuarantee.void("seeded noise")])
    assert total.is_void
    assert total.adjacency == "add-remove"
    assert "seeded noise" in total.assumptions


def failing(plan: Plan, probability: float) -> Plan:
    """The same steps, each of which may be something else."""
    segments = tuple(replace(segment, failure=probability) for segment in plan.segments)
    return replace(plan, segments=segments)


def test_what_may_fail_is_taken_from_delta():
    plan = sgd_plan(0.01, 1.1, 1000)
    loose = failing(plan, 5e-9)
    assert epsilon(loose) == epsilon(plan, delta=DELTA - 1000 * 5e-9)
    assert epsilon(loose) > epsilon(plan)
    assert epsilon(failing(plan, 1.1e-8)) == math.inf
    stated = guarantee(loose)
    assert stated.accountant.endswith("; 5e-6 of delta set aside for tails")
    assert PrivacyGuarantee.from_dict(stated.to_dict()) == stated
    assert compose([stated, stated]).epsilon == epsilon(failing(sgd_plan(0.01, 1.1, 2000), 5e-9))


@pytest.mark.parametrize("adjacency", ["add-remove", "change-attribute"])
def test_a_failure_is_charged_once_however_often_a_record_is_seen(adjacency):
    plan = sgd_plan(0.01, 1.1, 1000, adjacency=adjacency)
    assert epsilon(failing(plan, 5e-9)) == epsilon(plan, delta=DELTA - 1000 * 5e-9)


def test_a_search_may_fail_in_each_of_its_runs():
    (event,) = events(failing(sgd_plan(0.01, 1.0, 1000), 1e-10))
    (plain,) = events(sgd_plan(0.01, 1.0, 1000))
    search = dp_event.RepeatAndSelectDpEvent(event, mean=10.0, shape=1.0)
    same = dp_event.RepeatAndSelectDpEvent(plain, mean=10.0, shape=1.0)
    assert epsilon(search, DELTA) == epsilon(same, DELTA - 10 * 1000 * 1e-10)


@pytest.mark.parametrize("probability", [-0.1, 1.1, math.nan])
def test_impossible_failures_are_refused(probability):
    with pytest.raises(ValueError, match="'failure' must be"):
        failing(sgd_plan(0.01, 1.0, 1), probability)
    with pytest.raises(ValueError, match="a probability of"):
        epsilon(FailureDpEvent(probability), DELTA)
