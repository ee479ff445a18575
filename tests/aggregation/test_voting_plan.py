"""Costs of queries: by hand, and by an exact formula."""

from __future__ import annotations

import math

import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import norm

from skfairdp.aggregation import VotingNoise, voting_plan
from skfairdp.aggregation.voting_plan import affordable_answers, calibrated_noise
from skfairdp.privacy import epsilon
from skfairdp.privacy.accounting import events
from skfairdp.privacy.accounting.events import without_failures
from skfairdp.privacy.plan import GRID_MARGIN

PUBLISHED = VotingNoise(threshold=40.0, votes=15.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon of a Gaussian query of sensitivity mu and noise 1 (Balle and Wang, theorem 8)."""

    def excess(eps: float) -> float:
        first = norm.cdf(mu / 2 - eps / mu)
        return first - math.exp(eps + log_ndtr(-mu / 2 - eps / mu)) - delta

    return brentq(excess, 0.0, 500.0, xtol=1e-12)


def test_three_queries_by_hand() -> None:
    # Asked: three. The first passed the test and was answered, the second passed and the
    # gate refused it, the third failed the test. Renyi divergence of order 10:
    # 3 * 10 / (2 * 40**2) + 2 * 10 / 15**2 = 0.009375 + 0.0888889, where votes are rounded to no
    # grid; rounding moves each release by GRID_MARGIN more standard deviations.
    by_hand = 15 * (1 / 40 + GRID_MARGIN) ** 2 + 10 * (math.sqrt(2) / 15 + GRID_MARGIN) ** 2
    assert by_hand == pytest.approx(0.009375 + 0.08888888888888889, rel=1e-5)
    plan = voting_plan(3, 2, PUBLISHED, delta=1e-6)
    accountant = RdpAccountant([10.0]).compose(without_failures(events(plan)[0])[0])
    assert accountant._rdp[0] == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize(
    ("queries", "answers", "tests", "votes"),
    [(3, 2, 40.0, 15.0), (1000, 200, 200.0, 60.0), (5000, 5000, None, 400.0)],
)
def test_the_plan_costs_what_one_gaussian_query_does(queries, answers, tests, votes) -> None:
    # Squared sensitivities over noise add up: 1 a test, 2 (a vote gone, a vote come) a vote.
    mu = math.sqrt((queries / tests**2 if tests else 0.0) + 2 * answers / votes**2)
    plan = voting_plan(queries, answers, VotingNoise(tests, votes), delta=1e-6)
    exact = gaussian_epsilon(mu, 1e-6)
    assert exact <= epsilon(plan) <= exact * 1.001


def test_a_cost_whose_exponential_overflows_is_still_bounded() -> None:
    plan = voting_plan(50, 50, VotingNoise(None, 0.3), delta=1e-6)
    half_squared = 2 * 50 / 0.3**2 / 2
    assert half_squared < epsilon(plan) < 2 * half_squared


def test_sensitivity_of_the_votes_is_not_that_of_one_count() -> None:
    # Too small a sensitivity would be seen by the test above.
    plan = voting_plan(1, 100, VotingNoise(None, 60.0), delta=1e-6)
    assert epsilon(plan) > 1.3 * gaussian_epsilon(math.sqrt(100 / 60.0**2), 1e-6)


@pytest.mark.parametrize("target", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("ratio", [None, 40 / 15])
def test_calibrated_noise_meets_the_budget_and_uses_it(target: float, ratio: float | None) -> None:
    noise = calibrated_noise(target, 1e-6, 1000, 300, ratio=ratio)
    assert (noise.threshold is None) == (ratio is None)
    if ratio is not None:
        assert noise.threshold == pytest.approx(ratio * noise.votes)
    assert 0.99 * target <= epsilon(voting_plan(1000, 300, noise, delta=1e-6)) <= target


def test_affordable_answers_are_the_most_that_the_budget_pays_for() -> None:
    def cost(answers: int) -> float:
        return epsilon(voting_plan(1000, answers, PUBLISHED, delta=1e-6))

    found = affordable_answers(5.0, 1e-6, 1000, PUBLISHED)
    assert cost(found) <= 5.0 < cost(found + 1)
    assert affordable_answers(500.0, 1e-6, 1000, PUBLISHED) == 1000
    # 1000 tests alone cost more than this.
    assert affordable_answers(1.0, 1e-6, 1000, PUBLISHED) == 0
