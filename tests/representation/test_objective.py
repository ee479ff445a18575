"""The loss of an encoder: its value, its gradients, its columns, and what passes a channel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Normal

from skfairdp.representation.networks import RepresentationModule
from skfairdp.representation.objective import (
    ColumnsLikelihood,
    ColumnTypes,
    LaplaceChannel,
    ResponseChannel,
    VariationalLoss,
)
from skfairdp.representation.randomizers import (
    LaplaceRandomizer,
    ResponseRandomizer,
)

TYPES = ColumnTypes(gaussian=(0, 5), bernoulli=(2,), categorical=((1, 3, 4),))
N_GROUPS, N_CLASSES = 2, 3
CHANNELS = {
    "laplace": LaplaceRandomizer(2.0, 2, 0.5),
    "codes": ResponseRandomizer(2.0, 2, 4),
}


def loss_of(kind: str, **weights: Any) -> VariationalLoss:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return _loss_of(kind, **weights)


def _loss_of(kind: str, **weights: Any) -> VariationalLoss:
    module = RepresentationModule(
        6, 2, N_CLASSES, N_GROUPS, hidden_sizes=(5,), utility_sizes=(4,), side_sizes=(4,),
        activation=torch.nn.Tanh,
    )  # fmt: skip
    commitment = weights.pop("commitment", 0.25)
    channel = (
        LaplaceChannel(CHANNELS[kind])
        if kind == "laplace"
        else ResponseChannel(CHANNELS[kind], 0.5, commitment)
    )
    numbers = {"beta": 3.0} | weights
    return VariationalLoss(module, channel, TYPES, N_GROUPS, **numbers).double()


def rows_of(n: int = 7) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    rows = torch.zeros(n, 6 + N_GROUPS + N_CLASSES, dtype=torch.float64)
    rows[:, [0, 5]] = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    rows[:, 2] = torch.randint(2, (n,), generator=generator).double()
    rows[torch.arange(n), torch.tensor([1, 3, 4])[torch.arange(n) % 3]] = 1.0
    rows[torch.arange(n), 6 + torch.arange(n) % N_GROUPS] = 1.0
    rows[torch.arange(n), 6 + N_GROUPS + torch.arange(n) % N_CLASSES] = 1.0
    return rows


@pytest.fixture(autouse=True)
def same_draws() -> Any:
    with torch.random.fork_rng():
        yield


def value(loss: VariationalLoss, rows: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(5)
    return loss(rows)


def test_the_loss_is_the_negative_log_likelihood_of_row_and_label() -> None:
    loss, rows = loss_of("laplace").eval(), rows_of()
    x, s, u = rows.split([6, N_GROUPS, N_CLASSES], dim=1)
    z = 0.5 * torch.tanh(loss.module.encode(x))
    stated = loss.module.reconstruct(z, s)
    constant = 2 * 0.5 * math.log(2 * math.pi)  # of two Gaussian columns; left out of the loss
    expected = (
        Normal(stated[:, [0, 5]], 1.0).log_prob(x[:, [0, 5]]).sum(1)
        + constant
        + Bernoulli(logits=stated[:, 2]).log_prob(x[:, 2])
        + Categorical(logits=stated[:, [1, 3, 4]]).log_prob(x[:, [1, 3, 4]].argmax(1))
        + 3.0 * Categorical(logits=loss.module.predict_utility(z)).log_prob(u.argmax(1))
    )
    assert torch.allclose(loss(rows), -expected, rtol=1e-12)


def test_a_normal_law_of_the_label_is_a_squared_error() -> None:
    plain, rows = loss_of("laplace", beta=0.0).eval(), rows_of()
    loss = loss_of("laplace", label_law="gaussian").eval()
    z = 0.5 * torch.tanh(loss.module.encode(rows[:, :6]))
    mean = loss.module.predict_utility(z).softmax(1)
    law = Normal(mean, math.sqrt(0.5))
    log_law = law.log_prob(rows[:, 6 + N_GROUPS :]).sum(1) + 1.5 * math.log(math.pi)
    assert torch.allclose(loss(rows), plain(rows) - 3.0 * log_law, rtol=1e-12)
    rows[:, 6 + N_GROUPS :] = 0.0
    assert torch.equal(loss(rows), plain(rows))


@pytest.mark.parametrize("law", ["categorical", "gaussian"])
@pytest.mark.parametrize("n_samples", [1, 3])
def test_gradients_agree_with_finite_differences(n_samples: int, law: str) -> None:
    loss, rows = loss_of("laplace", n_samples=n_samples, label_law=law), rows_of()
    parameters = list(loss.parameters())
    gradients = torch.autograd.grad(value(loss, rows).sum(), parameters)
    step = 1e-6
    for parameter, gradient in zip(parameters, gradients, strict=True):
        flat = parameter.data.view(-1)
        for place in range(0, flat.numel(), max(1, flat.numel() // 5)):
            kept = flat[place].item()
            flat[place] = kept + step
            above = value(loss, rows).sum().item()
            flat[place] = kept - step
            below = value(loss, rows).sum().item()
            flat[place] = kept
            # Central differences: an error of order step**2 and of rounding over step.
            assert (above - below) / (2 * step) == pytest.approx(
                gradient.view(-1)[place].item(), rel=1e-5, abs=1e-6
            )


def test_a_wrong_gradient_would_differ_from_finite_differences() -> None:
    """The same check with a hard truncation, which has no gradient outside of the box."""
    loss, rows = loss_of("laplace").eval(), rows_of()
    raw = 3.0 + loss.module.encode(rows[:, :6]).detach().abs()
    raw.requires_grad_(True)
    smooth = torch.autograd.grad(loss.channel.hidden(raw).sum(), raw)[0]
    hard = torch.autograd.grad(raw.clamp(-0.5, 0.5).sum(), raw)[0]
    assert (smooth > 0.0).all()
    assert (hard == 0.0).all()


@pytest.mark.parametrize("kind", CHANNELS)
def test_several_draws_are_averaged(kind: str) -> None:
    rows = rows_of()
    many = loss_of(kind)(rows.repeat(4000, 1)).reshape(4000, 7).detach()
    torch.manual_seed(9)
    several = loss_of(kind, n_samples=4000)(rows).detach()
    error = many.std(0) * math.sqrt(2 / 4000)
    # Seven rows of normal means: six standard errors fail once in 10**8.
    assert ((many.mean(0) - several).abs() <= 6 * error + 1e-12).all()


@pytest.mark.parametrize("kind", CHANNELS)
def test_the_loss_of_a_record_depends_on_this_record_alone(kind: str) -> None:
    loss, rows = loss_of(kind, n_samples=2), rows_of()
    rows.requires_grad_(True)
    gradient = torch.autograd.grad(value(loss, rows)[3], rows)[0]
    assert (gradient[3] != 0).any()
    assert (gradient[torch.arange(7) != 3] == 0).all()


@pytest.mark.parametrize("kind", CHANNELS)
def test_nothing_is_drawn_outside_of_training(kind: str) -> None:
    loss, rows = loss_of(kind).eval(), rows_of()
    before = torch.get_rng_state()
    assert torch.equal(loss(rows), loss(rows))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_category_that_was_not_declared_and_a_label_without_a_class_add_nothing() -> None:
    loss, rows = loss_of("laplace").eval(), rows_of(1)
    rows[:, [1, 3, 4]] = 0.0
    rows[:, 6 + N_GROUPS :] = 0.0
    x, s, _ = rows.split([6, N_GROUPS, N_CLASSES], dim=1)
    stated = loss.module.reconstruct(0.5 * torch.tanh(loss.module.encode(x)), s)
    expected = 0.5 * (x - stated)[:, [0, 5]].square().sum()
    expected = expected - Bernoulli(logits=stated[0, 2]).log_prob(x[0, 2])
    assert loss(rows).item() == pytest.approx(expected.item(), rel=1e-12)


def test_codes_are_nearest_words_and_words_start_evenly_spread() -> None:
    channel = ResponseChannel(CHANNELS["codes"], 0.5, 0.25).double()
    assert channel.words()[0] == pytest.approx([-0.5, -1 / 6, 1 / 6, 0.5], abs=1e-7)
    raw = torch.atanh(2 * torch.tensor([[-0.49, 0.2], [0.0, 0.34]], dtype=torch.float64))
    assert channel.hidden(raw).tolist() == [[0, 2], [1, 3]]


def test_gradients_skip_quantisation_and_randomised_response() -> None:
    """Straight-through: with respect to the encoder, z counts as its squashed output."""
    channel = ResponseChannel(CHANNELS["codes"], 0.5, 0.25).double()
    raw = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 2).requires_grad_(True)
    z, _ = channel(raw, 1)
    weights = torch.arange(8, dtype=torch.float64).reshape(4, 2)
    gradient = torch.autograd.grad((weights * z).sum(), raw, retain_graph=True)[0]
    expected = weights * 0.5 * (1 - torch.tanh(raw) ** 2)
    assert torch.allclose(gradient, expected, rtol=1e-12)
    words = channel.embed(channel.hidden(raw))
    assert z.detach().unique().numel() <= 4
    assert not torch.equal(z, words)  # in training, decoders see released words
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        torch.autograd.grad((weights * z).sum(), channel.codebook)


def test_released_codes_in_training_follow_randomised_response() -> None:
    channel = ResponseChannel(CHANNELS["codes"], 0.5, 0.25).double()
    raw = torch.zeros(1, 2, dtype=torch.float64)
    z, _ = channel(raw, 40_000)
    kept = (z == channel.embed(channel.hidden(raw))).double().mean().item()
    expected = CHANNELS["codes"].keep_probability
    # A share of 80,000 coins: six standard errors fail once in 10**8.
    assert abs(kept - expected) <= 6 * math.sqrt(expected * (1 - expected) / 80_000)


def test_both_terms_of_vector_quantisation_pull_where_they_should() -> None:
    channel = ResponseChannel(CHANNELS["codes"], 0.5, 0.25).double()
    raw = torch.tensor([[0.3, -0.9]], dtype=torch.float64, requires_grad=True)
    smooth = (0.5 * torch.tanh(raw)).detach()
    codes = channel.hidden(raw)
    off = smooth - channel.embed(codes).detach()
    _, penalty = channel(raw, 1)
    assert penalty.item() == pytest.approx(1.25 * off.square().sum().item(), rel=1e-12)
    to_raw, to_words = torch.autograd.grad(penalty.sum(), [raw, channel.codebook])
    slope = 0.5 * (1 - torch.tanh(raw.detach()) ** 2)
    assert torch.allclose(to_raw, 2 * 0.25 * off * slope, rtol=1e-12)
    expected = torch.zeros(2, 4, dtype=torch.float64)
    expected[torch.arange(2), codes[0]] = -2 * off[0]
    assert torch.allclose(to_words, expected, rtol=1e-12)


def test_laplace_noise_in_training_has_the_scale_of_the_release() -> None:
    channel = LaplaceChannel(CHANNELS["laplace"])
    z, penalty = channel(torch.zeros(1, 2), 50_000)
    assert penalty.tolist() == [0.0]
    # The mean of |Laplace| is its scale, with a deviation as large.
    assert abs(z.abs().mean().item() / 1.0 - 1.0) <= 6 / math.sqrt(100_000)


@pytest.mark.parametrize("kind", CHANNELS)
def test_records_can_be_taken_one_by_one_by_the_engine(kind: str) -> None:
    from skfairdp.engine.clipping.clippers import make_clipper
    from skfairdp.engine.optimizers import flatten

    loss, rows = loss_of(kind, n_samples=2).eval(), rows_of()
    flat = flatten(loss)
    clipper = make_clipper(loss, flat, lambda output: output)
    total = clipper.clipped_sums(rows, (), 1e9, torch.ones(7, dtype=torch.float64))
    expected = torch.autograd.grad(loss(rows).sum(), list(loss.parameters()), allow_unused=True)
    flat_expected = torch.cat([g.flatten() for g in expected])
    assert torch.allclose(total, flat_expected, rtol=1e-6, atol=1e-9)
    one = clipper.clipped_sums(rows[:1], (), 0.5, torch.ones(1, dtype=torch.float64))
    assert one.norm().item() <= 0.5


NAMES = ["age", "sex", "red", "blue"]


def test_columns_of_zeros_and_ones_are_bernoulli_and_constant_ones_are_what_they_look_like() -> (
    None
):
    X = np.array([[0.0, 3.0, 1.0, 0.5], [1.0, 3.0, 1.0, 1.0]])
    assert ColumnTypes.from_rows(X) == ColumnTypes(gaussian=(1, 3), bernoulli=(0, 2))


def test_declared_by_name_or_position() -> None:
    expected = ColumnTypes(gaussian=(0,), bernoulli=(1,), categorical=((2, 3),))
    named = {"bernoulli": ["sex"], "categorical": [["red", "blue"]]}
    placed = {"bernoulli": [1], "categorical": [[2, 3]], "gaussian": [0]}
    assert ColumnTypes.declared(named, NAMES) == expected
    assert ColumnTypes.declared(placed, NAMES) == expected
    assert ColumnTypes.declared("gaussian", NAMES).gaussian == (0, 1, 2, 3)
    assert ColumnTypes.declared("bernoulli", NAMES).bernoulli == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ({"bernoulli": ["job"]}, "'job', which is not a column"),
        ({"bernoulli": [4]}, "4, which is not a column"),
        ({"bernoulli": ["sex"], "gaussian": ["sex"]}, "'sex' twice"),
        ({"categorical": [["red", "sex"], ["sex"]]}, "'sex' twice"),
        ({"categorical": [[]]}, "empty list"),
        ({"poisson": ["age"]}, "'column_types' must be"),
        ("poisson", "'column_types' must be"),
    ],
)
def test_bad_declarations(declaration: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ColumnTypes.declared(declaration, NAMES)  # type: ignore[arg-type]


def test_variables_of_different_width_do_not_disturb_each_other() -> None:
    types = ColumnTypes(gaussian=(), bernoulli=(), categorical=((0, 1), (2, 3, 4)))
    likelihood = ColumnsLikelihood(types)
    stated = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    x = torch.tensor([[1.0, 0.0, 0.0, 1.0, 0.0]]).expand(4, -1)
    expected = stated[:, :2].log_softmax(1)[:, 0] + stated[:, 2:].log_softmax(1)[:, 1]
    assert torch.allclose(likelihood(stated, x), expected)
    (gradient,) = torch.autograd.grad(likelihood(stated, x).sum(), stated)
    assert gradient.isfinite().all()


def test_means_are_probabilities_where_columns_are_binary() -> None:
    types = ColumnTypes(gaussian=(0,), bernoulli=(1,), categorical=((2, 3),))
    mean = ColumnsLikelihood(types).mean(torch.tensor([[2.5, 0.0, 1.0, 1.0]]))
    assert mean.tolist() == [[2.5, 0.5, 0.5, 0.5]]
