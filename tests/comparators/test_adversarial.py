"""Every term of the adversarial losses, against a slow and obvious computation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch.nn import functional

from skfairdp.comparators.adversarial import (
    CFAIREncoder,
    LAFTREncoder,
    balancing_weights,
    group_normalised,
)
from skfairdp.comparators.networks import ReversedGradient
from tests.comparators.makings import batch, generator, losses_of


@pytest.mark.parametrize(("n_groups", "n_strata"), [(2, 1), (2, 2), (3, 2)])
def test_every_cell_of_group_and_stratum_counts_alike(n_groups, n_strata):
    n = 60
    errors = torch.rand(n, generator=generator())
    groups = torch.arange(n) ** 2 % n_groups
    strata = (torch.arange(n) % (n_strata + 1) - 1).clamp(max=n_strata - 1)  # -1: left out
    expected = 0.0
    for stratum, group in product(range(n_strata), range(n_groups)):
        cell = [errors[i].item() for i in range(n) if strata[i] == stratum and groups[i] == group]
        expected += np.mean(cell) if cell else 0.0
    total = group_normalised(errors, groups, strata, n_groups)
    assert total.item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds", "equal_opportunity"])
def test_laftr_compares_groups_in_the_strata_of_its_notion(notion):
    rows, sizes = batch()
    model = LAFTREncoder(notion=notion, adversary_loss="l1")
    objective = losses_of(model, sizes, rows, generator())
    z = objective.encoder(rows.x)
    seen = [z] if notion == "demographic_parity" else [z, functional.one_hot(rows.y, 2).float()]
    h = objective.rival(torch.cat(seen, dim=1)).softmax(1)[:, 1]
    strata = {
        "demographic_parity": [torch.ones_like(rows.y, dtype=torch.bool)],
        "equalized_odds": [rows.y == 0, rows.y == 1],
        "equal_opportunity": [rows.y == 1],
    }[notion]
    expected = 0.0
    for stratum in strata:
        errors = [(h - g).abs()[stratum & (rows.groups == g)].mean() for g in (0, 1)]
        expected += 1 - sum(errors).item()
    assert objective.gain(z, rows).item() == pytest.approx(expected, abs=1e-5)
    assert objective.rival_loss(rows, generator()).item() == pytest.approx(-expected, abs=1e-5)


def test_laftrs_adversary_learns_by_the_mean_cross_entropy_of_groups():
    rows, sizes = batch(n_groups=3)
    objective = losses_of(LAFTREncoder(), sizes, rows, generator())
    guessed = objective.rival(objective.encoder(rows.x)).log_softmax(1)
    expected = sum(-guessed[rows.groups == g, g].mean().item() for g in range(3))
    assert objective.rival_loss(rows, generator()).item() == pytest.approx(expected, rel=1e-5)


def test_laftrs_loss_is_the_weighted_sum_of_its_terms():
    rows, sizes = batch()
    objective = losses_of(LAFTREncoder(alpha=2.0, beta=3.0, gamma=5.0), sizes, rows, generator())
    z = objective.encoder(rows.x)
    guessed = objective.classifier(z).log_softmax(1)
    ce = -guessed[torch.arange(len(rows)), rows.y].mean()
    decoded = objective.decoder(torch.cat([z, functional.one_hot(rows.groups, 2)], dim=1))
    mse = ((decoded - rows.x) ** 2).mean()
    expected = 2 * ce + 3 * mse + 5 * objective.gain(z, rows)
    assert objective.loss(rows, generator()).item() == pytest.approx(expected.item(), rel=1e-5)


def test_cfair_weights_are_inverse_frequencies_within_the_stratum():
    s = torch.tensor([0, 0, 0, 1, 0, 1, 1])
    y = torch.tensor([0, 0, 0, 0, 1, 1, 1])
    weights = balancing_weights(s, 2, y, 2)
    assert torch.allclose(weights, torch.tensor([[4 / 3, 4.0], [3.0, 3 / 2]]))


@pytest.mark.parametrize(("n_groups", "n_strata"), [(2, 2), (3, 2), (2, 4)])
def test_cfair_weights_times_frequencies_are_one_for_every_cell(n_groups, n_strata):
    """Σ_s P(s|y) w(s, y) is the number of groups: each contributes alike."""
    s = torch.randint(n_groups, (500,), generator=generator())
    y = torch.randint(n_strata, (500,), generator=generator(1))
    weights = balancing_weights(s, n_groups, y, n_strata)
    for stratum in range(n_strata):
        total = weights[stratum][s[y == stratum]].mean().item()
        assert total == pytest.approx(n_groups, rel=1e-5)


def test_a_cell_that_never_occurs_weighs_nothing():
    weights = balancing_weights(torch.tensor([0, 0, 1]), 2, torch.tensor([0, 0, 1]), 3)
    assert weights.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("balanced", [True, False])
def test_cfairs_loss_is_the_balanced_cross_entropy_of_label_and_groups(balanced):
    """On all training rows, the weighted mean is the mean over groups of their means."""
    rows, sizes = batch(60, n_groups=3)
    model = CFAIREncoder(mu=2.0, balanced=balanced)
    objective = losses_of(model, sizes, rows, generator())
    z = objective.encoder(rows.x)

    def balanced_loss(logits: torch.Tensor, codes: torch.Tensor) -> float:
        losses = -logits.log_softmax(1)[torch.arange(len(codes)), codes]
        return float(np.mean([losses[codes == c].mean().item() for c in codes.unique()]))

    target = balanced_loss(objective.classifier(z), rows.y)
    if not balanced:
        target = functional.cross_entropy(objective.classifier(z), rows.y).item()
    leak = sum(
        balanced_loss(objective.adversaries[c](z[rows.y == c]), rows.groups[rows.y == c])
        for c in (0, 1)
    )
    assert objective.leak(z, rows).item() == pytest.approx(leak, rel=1e-5)
    assert objective.loss(rows, generator()).item() == pytest.approx(target + leak, rel=1e-5)


def test_a_batch_without_rows_of_a_class_has_a_finite_cfair_loss():
    rows, sizes = batch()
    objective = losses_of(CFAIREncoder(), sizes, rows, generator())
    loss = objective.loss(rows.take((rows.y == 0).nonzero()[:, 0]), generator())
    loss.backward()
    assert torch.isfinite(loss)
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in objective.parameters())


def test_the_reversed_gradient_has_the_opposite_sign_for_the_encoder_only():
    rows, sizes = batch()
    mu = 2.5
    objective = losses_of(CFAIREncoder(mu=mu), sizes, rows, generator())
    z = objective.encoder(rows.x)
    straight = torch.autograd.grad(
        objective.leak(z, rows), objective.parameters(), allow_unused=True
    )
    z = objective.encoder(rows.x)
    leak = objective.leak(ReversedGradient.apply(z, mu), rows)
    turned = torch.autograd.grad(leak, objective.parameters(), allow_unused=True)
    named = dict(objective.named_parameters())
    factors = {"encoder": -mu, "adversaries": 1.0}
    checked = set()
    for name, one, other in zip(named, straight, turned, strict=True):
        part = name.split(".")[0]
        if part in factors:
            assert torch.allclose(other, factors[part] * one, atol=1e-6), name
            checked.add(part)
    assert checked == set(factors)
