"""Noise for a target: never too little, hardly too much, found quickly."""

from __future__ import annotations

import logging

import pytest

from skfairdp import DPSGDClassifier
from skfairdp.privacy import CountRelease, epsilon, epsilons, noise_multiplier_for
from skfairdp.privacy.accounting import accountants, calibration
from skfairdp.privacy.accounting.calibration import SMALLEST
from tests.privacy.oracle import oracle_epsilon
from tests.privacy.plans import fairdp_plan, maker

TIGHT = 0.995

CASES = [
    (1.0, 1e-5, 0.01, 1000),
    (0.01, 1e-6, 0.01, 50_000),
    (0.1, 1e-6, 0.05, 500),
    (50.0, 1e-6, 0.05, 500),
    (50.0, 1e-6, 1.0, 1),
    (0.01, 1e-6, 1.0, 1),
    (50.0, 1e-6, 1.0, 50_000),
    (1.0, 1e-6, 1e-3, 1),
    (3.0, 1e-9, 0.3, 10),
]


@pytest.fixture
def evaluations(monkeypatch):
    """Count how often a privacy loss distribution is really computed."""
    calls = []
    real = accountants.loss_epsilon

    def counted(*arguments):
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(accountants, "loss_epsilon", counted)
    return lambda: len(calls)


@pytest.mark.parametrize(("target", "delta", "rate", "steps"), CASES)
def test_target_is_met_tightly_in_six_evaluations(target, delta, rate, steps, evaluations, logged):
    # A delta of its own, so that no earlier test has left a cached answer.
    make_plan = maker(rate, steps, delta=delta * 1.000001)
    multiplier = noise_multiplier_for(target, delta * 1.000001, make_plan)
    assert evaluations() <= 6
    reached = epsilon(make_plan(multiplier))
    assert TIGHT * target <= reached <= target
    assert not [record for record in logged if record.levelno >= logging.WARNING]


def test_the_target_is_not_exceeded_even_where_the_search_aims_above_it(monkeypatch):
    monkeypatch.setattr(calibration, "AIM", 1.0005)
    make_plan = maker(1.0, 11)
    assert epsilon(make_plan(noise_multiplier_for(1.3, 1e-5, make_plan))) <= 1.3


def test_the_answer_holds_by_the_independent_integral():
    make_plan = maker(0.02, 700)
    multiplier = noise_multiplier_for(2.0, 1e-5, make_plan)
    assert oracle_epsilon(make_plan(multiplier), 1e-5) == pytest.approx(2.0, rel=8e-3)


def test_every_cell_meets_the_target():
    def make_plan(multiplier):
        return fairdp_plan((200, 1000, 9000), (0.3, 0.05, 0.004), multiplier, 300)

    multiplier = noise_multiplier_for(1.5, 1e-5, make_plan)
    costs = epsilons(make_plan(multiplier)).values()
    assert TIGHT * 1.5 <= max(costs) <= 1.5


def test_counts_are_paid_from_the_same_budget():
    make_plan = maker(0.01, 1000, counts=(CountRelease(name="table", epsilon=0.5),))
    multiplier = noise_multiplier_for(1.0, 1e-5, make_plan)
    assert multiplier > noise_multiplier_for(1.0, 1e-5, maker(0.01, 1000))
    assert TIGHT <= epsilon(make_plan(multiplier)) <= 1.0


def test_counts_above_the_budget_are_refused():
    make_plan = maker(0.01, 1000, counts=(CountRelease(name="table", epsilon=0.5, releases=3),))
    with pytest.raises(ValueError, match=r"cannot be met.*counts.*1\.5"):
        noise_multiplier_for(1.0, 1e-5, make_plan)


def test_a_delta_below_what_tails_take_is_blamed_and_no_counts():
    model = DPSGDClassifier(epsilon=1.0, delta=1e-300)
    with pytest.raises(ValueError, match=r"delta=1e-300 cannot be met.*larger delta") as refused:
        model.quote(n_rows=300)
    assert "counts" not in str(refused.value)


@pytest.mark.parametrize("target", [0.0, -1.0, float("inf"), float("nan")])
def test_impossible_targets_are_refused(target):
    with pytest.raises(ValueError, match="epsilon="):
        noise_multiplier_for(target, 1e-5, maker(0.01, 10))


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_impossible_deltas_are_refused(delta):
    with pytest.raises(ValueError, match="delta="):
        noise_multiplier_for(1.0, delta, maker(0.01, 10))


def test_a_release_that_delta_alone_covers_gets_the_smallest_multiplier():
    assert noise_multiplier_for(1.0, 1e-5, maker(1e-6, 2)) == SMALLEST


def test_answers_are_cached(evaluations):
    first = noise_multiplier_for(0.8, 1e-5, maker(0.3, 21))
    spent = evaluations()
    assert noise_multiplier_for(0.8, 1e-5, maker(0.3, 21)) == first
    epsilon(maker(0.3, 21)(first))
    assert evaluations() == spent


def test_a_cached_answer_is_not_trusted_for_a_plan_that_only_looks_alike():
    honest = maker(0.3, 20)
    multiplier = noise_multiplier_for(1.0, 1e-5, honest)

    def deceptive(candidate):
        return honest(candidate if candidate in (0.6, 1.0, 3.7) else candidate / 2)

    answer = noise_multiplier_for(1.0, 1e-5, deceptive)
    assert answer > 1.9 * multiplier
    assert epsilon(deceptive(answer)) <= 1.0


def test_noise_that_never_suffices_is_refused_and_not_approximated():
    honest = maker(0.3, 20)
    with pytest.raises(ValueError, match="was not met by noise multipliers up to 1e"):
        noise_multiplier_for(0.01, 1e-5, lambda multiplier: honest(min(multiplier, 5.0)))


def test_where_the_cost_jumps_over_the_target_the_lower_cost_is_taken():
    honest = maker(0.3, 20)

    def in_steps(multiplier):
        return honest(1.0 if multiplier < 2.0 else 20.0)

    cheap, dear = epsilon(in_steps(2.0)), epsilon(in_steps(1.0))
    answer = noise_multiplier_for((cheap + dear) / 2, 1e-5, in_steps)
    assert epsilon(in_steps(answer)) == cheap
    assert answer == pytest.approx(2.0)
