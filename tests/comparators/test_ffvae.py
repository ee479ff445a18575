"""Every term of the loss of FFVAE, against a slow and obvious computation."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from skfairdp.comparators.ffvae import FFVAEEncoder, density_ratio_loss, shuffled
from skfairdp.comparators.networks import GaussianEncoder, Widths, negative_log_likelihood
from tests.comparators.makings import batch, generator, losses_of


def test_the_discriminator_learns_the_logarithm_of_the_density_ratio():
    """Two correlated normal numbers: the mean logit is their mutual information.

    The log-ratio is quadratic, so a logistic model of quadratic terms can reach it. The
    tolerance is 6 standard errors of the mean log-ratio plus 0.02 for the fitted weights.
    """
    n, rho = 40_000, 0.8
    source = generator()
    z = torch.randn((n, 1), generator=source)
    b = rho * z + math.sqrt(1 - rho**2) * torch.randn((n, 1), generator=source)

    def terms(pairs: torch.Tensor) -> torch.Tensor:
        u, v = pairs.unbind(1)
        return torch.stack([torch.ones_like(u), u * u, v * v, u * v], dim=1)

    joint, apart = terms(torch.cat([z, b], dim=1)), terms(shuffled(z, [b], source))
    weights = torch.zeros((4, 1), requires_grad=True)
    solver = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        solver.zero_grad()
        loss = density_ratio_loss(joint @ weights, apart @ weights)
        loss.backward()
        return loss

    solver.step(closure)
    logits = (joint @ weights).detach()
    information = -0.5 * math.log(1 - rho**2)
    error = logits.std().item() / math.sqrt(n)
    assert abs(logits.mean().item() - information) < 6 * error + 0.02


def test_shuffling_keeps_each_block_and_the_rest_in_place():
    z, b, c = (torch.arange(12.0).reshape(6, 2) + k for k in (0, 100, 200))
    moved = shuffled(z, [b, c], generator())
    assert torch.equal(moved[:, :2], z)
    for block, part in ((b, moved[:, 2:4]), (c, moved[:, 4:])):
        assert torch.equal(part[part[:, 0].argsort()], block)
        assert not torch.equal(part, block)
    assert not torch.equal(moved[:, 2:4] + 100, moved[:, 4:])


def test_ffvae_pays_for_tangled_components_with_a_single_attribute_too():
    rows, sizes = batch()
    losses = [
        losses_of(FFVAEEncoder(gamma=gamma), sizes, rows, generator()).loss(rows, generator(1))
        for gamma in (0.0, 1.0)
    ]
    objective = losses_of(FFVAEEncoder(), sizes, rows, generator())
    mean, log_variance = objective.encoder(rows.x)
    drawn = GaussianEncoder.draw(mean, log_variance, generator(1))
    tangled = objective.rival(drawn).mean()
    assert tangled.item() != 0.0
    assert (losses[1] - losses[0]).item() == pytest.approx(tangled.item(), abs=1e-5)


def test_ffvaes_loss_has_a_prior_on_the_sensitive_components():
    rows, sizes = batch()
    objective = losses_of(FFVAEEncoder(alpha=0.0, gamma=0.0), sizes, rows, generator())
    mean, log_variance = objective.encoder(rows.x)
    assert mean.shape == (40, 3)  # two of z and one of b
    drawn = GaussianEncoder.draw(mean, log_variance, generator(1))
    lost = negative_log_likelihood(rows.x, objective.decoder(drawn), sizes.binary)
    variance = log_variance.exp()
    divergence = 0.5 * (mean**2 + variance - 1 - variance.log()).sum(1)
    expected = (lost + divergence).mean().item()
    assert objective.loss(rows, generator(1)).item() == pytest.approx(expected, rel=1e-5)


def test_ffvae_reads_each_attribute_from_its_own_block():
    rows, _ = batch()
    attributes = torch.stack([rows.groups, torch.arange(len(rows)) % 3], dim=1)
    sizes = Widths(4, 2, 0, (2, 3), (5,), torch.zeros(4, dtype=torch.bool))
    objective = losses_of(FFVAEEncoder(), sizes, rows, generator())
    assert objective.widths == [2, 1, 3]
    b, c = (torch.randn((len(rows), w), generator=generator()) for w in (1, 3))
    chance = torch.sigmoid(b[:, 0]).numpy()
    first = -stats.bernoulli(chance).logpmf(attributes[:, 0].numpy()).mean()
    second = -c.log_softmax(1)[torch.arange(len(rows)), attributes[:, 1]].mean().item()
    told = objective.told([b, c], attributes).item()
    assert told == pytest.approx(first + second, rel=1e-5)
