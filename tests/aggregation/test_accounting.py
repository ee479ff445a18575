"""What queries cost: by hand, by an exact formula, and by published figures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import norm

from skfairdp.aggregation import VotingNoise, data_dependent_rdp, voting_plan
from skfairdp.aggregation.voting_plan import affordable_answers, calibrated_noise
from skfairdp.privacy import epsilon
from skfairdp.privacy.accounting import events

ORDERS = [2.0, 5.0, 10.0, 20.0, 50.0]
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
    # 3 * 10 / (2 * 40**2) + 2 * 10 / 15**2 = 0.009375 + 0.0888889.
    by_hand = 0.009375 + 0.08888888888888889
    plan = voting_plan(3, 2, PUBLISHED, delta=1e-6)
    accountant = RdpAccountant([10.0]).compose(events(plan)[0])
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


# Values of the code published with PATE 2018 (tensorflow/privacy, research/pate_2018/core.py).
@pytest.mark.parametrize(
    ("votes", "std", "expected"),
    [
        ([250, 0], 40.0, [1.88989e-6, 2.1992e-6, 3.05666e-6, 7.97339e-6, 5.38842e-4]),
        ([90, 10], 15.0, [8.21306e-5, 1.26399e-4, 4.04174e-4, 1.00752e-2, 0.222222]),
        ([60, 40], 15.0, [order / 225 for order in ORDERS]),
    ],
)
def test_data_dependent_cost_of_votes(votes: list[int], std: float, expected: list[float]) -> None:
    found = data_dependent_rdp(np.array([votes]), VotingNoise(None, std), ORDERS)[0]
    assert found == pytest.approx(expected, rel=1e-5)


def test_data_dependent_cost_of_the_test() -> None:
    noise = VotingNoise(40.0, 15.0)
    refused = {"threshold": 50.0, "charged": np.array([False])}
    found = data_dependent_rdp(np.array([[90, 10]]), noise, ORDERS, **refused)[0]
    assert found == pytest.approx([order / 3200 for order in ORDERS], rel=1e-12)
    sure = data_dependent_rdp(np.array([[1000, 0]]), noise, ORDERS, **refused)[0]
    assert (sure < found).all()


def test_data_dependent_cost_is_never_above_the_guarantee() -> None:
    generator = np.random.default_rng(0)
    for n_classes in (2, 3, 10):
        shares = generator.dirichlet(np.full(n_classes, 0.3), size=200)
        votes = np.stack([generator.multinomial(250, share) for share in shares])
        noise = VotingNoise(50.0, 40.0)
        found = data_dependent_rdp(votes, noise, ORDERS, threshold=150.0)
        assert np.isfinite(found).all()
        assert (found >= 0.0).all()
        charged = np.array(ORDERS) * (1.0 / (2.0 * 50.0**2) + 1.0 / 40.0**2)
        assert (found <= charged + 1e-15).all()
        assert (found[:, 0] < 0.5 * charged[0]).any()


@pytest.mark.parametrize(
    ("votes", "noise", "orders", "threshold", "message"),
    [
        ([1, 2], PUBLISHED, [2.0], 5.0, "'votes'"),
        ([[1], [2]], PUBLISHED, [2.0], 5.0, "'votes'"),
        ([[1, 2]], PUBLISHED, [1.0], 5.0, "'orders'"),
        ([[1, 2]], PUBLISHED, [2.0], None, "'threshold'"),
        ([[1, 2]], VotingNoise(None, 15.0), [2.0], 5.0, "'threshold'"),
    ],
)
def test_bad_arguments_of_the_diagnostic(votes, noise, orders, threshold, message) -> None:
    with pytest.raises(ValueError, match=message):
        data_dependent_rdp(np.array(votes), noise, orders, threshold=threshold)
