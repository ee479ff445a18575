"""Densities, draws and first weights of the networks, against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from skfairdp.comparators.networks import GaussianEncoder, negative_log_likelihood, perceptron
from tests.comparators.makings import batch, generator


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (1.3, 0.2), (-0.4, 3.0)])
def test_the_closed_divergence_is_the_integral(mean, variance):
    q, p = stats.norm(mean, math.sqrt(variance)), stats.norm()
    integral, _ = integrate.quad(lambda t: q.pdf(t) * (q.logpdf(t) - p.logpdf(t)), -20, 20)
    closed = GaussianEncoder.divergence(torch.tensor([[mean]]), torch.tensor([[variance]]).log())
    assert closed.item() == pytest.approx(integral, abs=1e-6)


def test_draws_have_the_standard_deviation_that_the_divergence_speaks_of():
    """exp(log_variance / 2); 6 standard errors of a standard deviation, 2e-9."""
    n = 100_000
    log_variance = torch.full((n, 1), -2.0)
    drawn = GaussianEncoder.draw(torch.full((n, 1), 3.0), log_variance, generator())
    sigma = math.exp(-1.0)
    assert abs(drawn.std().item() - sigma) < 6 * sigma / math.sqrt(2 * n)
    assert abs(drawn.mean().item() - 3.0) < 6 * sigma / math.sqrt(n)


def test_the_likelihood_is_bernoulli_for_coins_and_normal_for_numbers():
    rows, sizes = batch(5)
    decoded = torch.randn((5, 4), generator=generator())
    chance = torch.sigmoid(decoded[:, 3]).numpy()
    expected = -stats.norm(decoded[:, :3].numpy()).logpdf(rows.x[:, :3].numpy()).sum(1)
    expected -= stats.bernoulli(chance).logpmf(rows.x[:, 3].numpy().astype(int))
    lost = negative_log_likelihood(rows.x, decoded, sizes.binary)
    np.testing.assert_allclose(lost.numpy(), expected, rtol=1e-5)


def test_first_weights_come_from_the_generator_and_leave_torchs_own_alone():
    before = torch.random.get_rng_state()
    one, two = (perceptron(3, (4,), 2, generator(7)) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    bound = 3**-0.5
    assert 0 < one[0].weight.abs().max().item() <= bound
