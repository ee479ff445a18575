"""Every term of every loss, against a slow and obvious computation."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.nn import functional

from skfairdp.comparators.adversarial import (
    CFAIREncoder,
    LAFTREncoder,
    balancing_weights,
    group_normalised,
)
from skfairdp.comparators.ffvae import FFVAEEncoder, density_ratio_loss, shuffled
from skfairdp.comparators.networks import (
    Batch,
    GaussianEncoder,
    ReversedGradient,
    Widths,
    negative_log_likelihood,
    perceptron,
)
from skfairdp.comparators.variational import (
    CFBEncoder,
    PPVAEEncoder,
    VFAEEncoder,
    mean_discrepancy,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def discrepancy(z, groups, n_groups, bandwidth, n_features, source) -> torch.Tensor:
    model = VFAEEncoder(bandwidth=bandwidth, n_random_features=n_features)
    return mean_discrepancy(model, z, groups, n_groups, source)


def losses_of(model: Any, *made_of: Any) -> Any:
    return model._losses(model, *made_of)


def batch(n: int = 40, n_groups: int = 2, n_classes: int = 2) -> tuple[Batch, Widths]:
    source = generator(3)
    x = torch.randn((n, 4), generator=source)
    x[:, 3] = (x[:, 3] > 0).float()
    y = torch.randint(n_classes, (n,), generator=source)
    s = torch.randint(n_groups, (n, 1), generator=source)
    binary = torch.tensor([False, False, False, True])
    return Batch(x, y, s), Widths(4, 2, n_classes, (n_groups,), (5,), binary)


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


def test_first_weights_come_from_the_generator_and_leave_torchs_own_alone():
    before = torch.random.get_rng_state()
    one, two = (perceptron(3, (4,), 2, generator(7)) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    bound = 3**-0.5
    assert 0 < one[0].weight.abs().max().item() <= bound
