"""Every term of the variational losses, against a slow and obvious computation."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn import functional

from skfairdp.comparators.networks import GaussianEncoder, negative_log_likelihood
from skfairdp.comparators.variational import (
    CFBEncoder,
    PPVAEEncoder,
    VFAEEncoder,
    mean_discrepancy,
)
from tests.comparators.makings import batch, generator, losses_of


def discrepancy(z, groups, n_groups, bandwidth, n_features, source) -> torch.Tensor:
    model = VFAEEncoder(bandwidth=bandwidth, n_random_features=n_features)
    return mean_discrepancy(model, z, groups, n_groups, source)


def test_random_features_estimate_the_exact_discrepancy():
    """The mean over feature draws is MMD² itself, within 6 standard errors (2e-9 each)."""
    z = torch.randn((30, 2), generator=generator())
    s = (torch.arange(30) % 3 == 0).long()
    z[s == 1] += 0.7
    gamma = 1.7

    def kernel(a: torch.Tensor, b: torch.Tensor) -> float:
        total = [
            math.exp(-((a[i] - b[j]) ** 2).sum().item() / gamma)
            for i, j in product(range(len(a)), range(len(b)))
        ]
        return float(np.mean(total))

    a, b = z[s == 0], z[s == 1]
    exact = kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)
    source = generator(5)
    draws = [discrepancy(z, s, 2, gamma, 50, source).item() for _ in range(2000)]
    error = np.std(draws) / math.sqrt(len(draws))
    assert exact > 50 * error  # the tolerance can tell it from zero
    assert abs(np.mean(draws) - exact) < 6 * error


def test_groups_with_the_same_representations_have_no_discrepancy():
    """Features shared by both groups cancel row by row; separate ones would not."""
    z = torch.randn((20, 2), generator=generator()).repeat(2, 1)
    s = torch.arange(40) // 20
    gap = discrepancy(z, s, 2, 1.0, 500, generator())
    assert gap.item() == pytest.approx(0.0, abs=1e-9)


def test_more_than_two_groups_are_each_compared_with_all_rows():
    z = torch.randn((30, 2), generator=generator())
    s = torch.arange(30) % 3
    gap = discrepancy(z, s, 3, 1.0, 40, generator(2))
    source = generator(2)
    W = torch.randn((2, 40), generator=source)
    b = 2 * math.pi * torch.rand(40, generator=source)
    features = math.sqrt(2 / 40) * torch.cos(math.sqrt(2.0) * z @ W + b)
    expected = sum(
        ((features[s == g].mean(0) - features.mean(0)) ** 2).sum().item() for g in range(3)
    )
    assert gap.item() == pytest.approx(expected, rel=1e-5)


def test_a_batch_of_one_group_has_no_discrepancy():
    z = torch.randn((10, 2), generator=generator(), requires_grad=True)
    s = torch.zeros(10, dtype=torch.int64)
    gap = discrepancy(z, s, 2, 1.0, 40, generator())
    gap.backward()
    assert gap.item() == 0.0
    assert bool(torch.isfinite(z.grad).all())


@pytest.mark.parametrize("kind", [CFBEncoder, PPVAEEncoder, VFAEEncoder])
def test_variational_losses_are_the_sums_of_their_terms(kind):
    rows, sizes = batch()
    model = kind(beta=3.0)
    objective = losses_of(model, sizes, rows, generator())
    groups = functional.one_hot(rows.groups, 2).float()
    inputs = rows.x if kind is CFBEncoder else torch.cat([rows.x, groups], dim=1)
    mean, log_variance = objective.encoder(inputs)
    source = generator(1)
    z = GaussianEncoder.draw(mean, log_variance, source)
    told = objective.decoder(torch.cat([z, groups], dim=1))
    divergence = GaussianEncoder.divergence(mean, log_variance).mean()
    if kind is CFBEncoder:
        expected = divergence + 3 * functional.cross_entropy(told, rows.y)
    else:
        lost = negative_log_likelihood(rows.x, told, sizes.binary).mean()
        expected = divergence + (3 * lost if kind is PPVAEEncoder else lost)
    if kind is VFAEEncoder:
        guessed = functional.cross_entropy(objective.classifier(z), rows.y)
        gap = discrepancy(z, rows.groups, 2, 1.0, 500, source)
        expected = expected + model.alpha * guessed + 3 * gap
    assert objective.loss(rows, generator(1)).item() == pytest.approx(expected.item(), rel=1e-5)
