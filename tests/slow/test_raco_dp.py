"""The accounting of the rebuilt RaCO-DP, against other accountants and against a simulation."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism

from examples.reproduce.raco_dp import FOLKTABLES, RaCODP, cost, noise_multiplier

pytestmark = pytest.mark.slow


def test_gradients_alone_cost_what_dp_sgd_costs() -> None:
    known = PLDAccountant()
    step = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(4.0))
    known.compose(step, 300)
    found = cost(300, 0.1, 4.0, 1e-4, 1e-5)
    assert known.get_epsilon(1e-5) <= found <= 1.002 * known.get_epsilon(1e-5)


def test_histograms_alone_cost_what_sampled_laplace_noise_costs() -> None:
    known = from_laplace_mechanism(2.0, sampling_prob=0.1).self_compose(100)
    found = cost(100, 0.1, np.inf, 0.5, 1e-5)
    assert found == pytest.approx(known.get_epsilon_for_delta(1e-5), rel=0.002)


def test_both_releases_of_one_batch_cost_more_than_of_two() -> None:
    """Of one step, where the divergences can be integrated, and of many."""
    sigma, epsilon, share, at = 1.5, 0.8, 0.3, 0.2
    places = np.linspace(-14.0, 15.0, 2001)
    x, y = np.meshgrid(places, places)
    area = (places[1] - places[0]) ** 2

    def density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        normal = np.exp(-0.5 * (x / sigma) ** 2) / (sigma * np.sqrt(2.0 * np.pi))
        return normal * 0.5 * epsilon * np.exp(-epsilon * np.abs(y))

    without = density(x, y)
    sampled = (1.0 - share) * without + share * density(x - 1.0, y - 1.0)
    leaves = np.maximum(sampled - np.exp(at) * without, 0.0).sum() * area
    joins = np.maximum(without - np.exp(at) * sampled, 0.0).sum() * area
    assert cost(1, share, sigma, epsilon, max(leaves, joins)) == pytest.approx(at, abs=0.005)

    step = dp_accounting.PoissonSampledDpEvent
    apart = PLDAccountant()
    apart.compose(step(share, dp_accounting.GaussianDpEvent(sigma)), 20)
    apart.compose(step(share, dp_accounting.LaplaceDpEvent(1.0 / epsilon)), 20)
    assert cost(20, share, sigma, epsilon, 1e-5) > 1.02 * apart.get_epsilon(1e-5)


def test_the_noise_uses_up_the_budget_and_no_more() -> None:
    found = noise_multiplier(1.0, 1e-6, 120, 0.126, 0.1)
    assert 0.995 < cost(120, 0.126, found, 0.1, 1e-6) <= 1.0
    with pytest.raises(ValueError, match="alone cost epsilon"):
        noise_multiplier(1.0, 1e-6, 1000, 0.126, 0.5)


def test_a_fit_without_noise_keeps_to_its_tolerance() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 4000)
    X = rng.normal(size=(4000, 2)) + 0.6 * groups[:, None]
    y = (X[:, 0] + rng.normal(size=4000) > 0.3).astype(int)
    settings = FOLKTABLES.__class__(400, 1000, 0.3, 0.5, 15.0, 50.0, 4.0)

    def gap(tolerance: float) -> float:
        given = {"notion": "demographic_parity", "epsilon": np.inf, "delta": 1e-6, "seed": 0}
        model = RaCODP(tolerance=tolerance, settings=settings, sigma=1e-9, **given)
        chosen = model.fit(X, y, groups).predict(X)
        return float(chosen[groups == 1].mean() - chosen[groups == 0].mean())

    assert gap(0.9) > 0.15
    assert abs(gap(0.05)) < 0.08
