"""Clipped sums are right, bounded, and silent about records they cannot use."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from skfairdp.engine.clipping import layered
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.clipping.norms import rounding_margin
from skfairdp.engine.modules import MLP, SmallCNN, leaves_of
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.randomness import OwnDraws
from tests.engine.per_record import clipped_sum, row_gradients

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
BINARY = nn.BCEWithLogitsLoss()


class Custom(nn.Module):
    """Holds linear layers but does something of its own with them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.second = nn.Linear(3, 1)
        self.unused = nn.Linear(2, 2)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return (self.second(torch.sin(self.first(X))) * 2).squeeze()


class Tied(nn.Module):
    """Uses one weight twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.again = nn.Linear(4, 4, bias=False)
        self.again.weight = self.layer.weight
        self.head = nn.Linear(4, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.again(torch.tanh(self.layer(X)))))


def build(module: nn.Module, dtype=torch.float64, criterion: nn.Module = BINARY):
    module = module.to(dtype)
    flat = flatten(module)
    return module, flat, make_clipper(module, flat, objective_for(criterion))


def binary_rows(n_rows: int, shape=(4,), dtype=torch.float64, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n_rows, *shape, generator=generator, dtype=torch.float64)
    y = torch.randint(0, 2, (n_rows,), generator=generator).to(dtype)
    weights = torch.rand(n_rows, generator=generator, dtype=torch.float64)
    return X.to(dtype), y, weights.to(dtype)


def in_blocks_of_eight(monkeypatch):
    for path in ("fused", "functional"):
        monkeypatch.setattr(f"skfairdp.engine.clipping.{path}.rows_within", lambda *_: 8)


def assert_close(got: torch.Tensor, want: torch.Tensor, weights, max_norm: float) -> None:
    """Compare per unit of what the sum may hold at most, not per raw coordinate."""
    scale = max(float(weights.double().sum()) * max_norm, 1e-300)
    assert got.shape == want.shape
    # The clipping norm is lowered by a margin of at most 32 * eps for these small layers.
    assert got.dtype == torch.float64
    margin = 32 * torch.finfo(weights.dtype).eps
    assert float((got - want).norm()) <= (TOLERANCE[weights.dtype] + margin) * scale


ACTIVATIONS = [
    nn.ReLU(),
    nn.ReLU(inplace=True),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.GELU(),
    nn.GELU(approximate="tanh"),
    nn.SiLU(),
    nn.LeakyReLU(0.2),
    nn.ELU(0.7),
    nn.Softplus(beta=2.0),
    nn.Identity(),
]

FUSED = {
    "linear": lambda: nn.Linear(4, 1),
    "no bias": lambda: nn.Sequential(nn.Linear(4, 3, bias=False), nn.Tanh(), nn.Linear(3, 1)),
    "nested": lambda: nn.Sequential(
        nn.Sequential(nn.Linear(4, 5), nn.Sequential(nn.ReLU())), nn.Linear(5, 1)
    ),
    "two linears in a row": lambda: nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1)),
    "two activations in a row": lambda: nn.Sequential(
        nn.Linear(4, 6), nn.Tanh(), nn.Sigmoid(), nn.SiLU(), nn.ReLU(), nn.Linear(6, 1)
    ),
    "activation first": lambda: nn.Sequential(nn.Tanh(), nn.Linear(4, 1)),
    "activation last": lambda: nn.Sequential(nn.Linear(4, 1), nn.Tanh()),
    "MLP": lambda: MLP(4, hidden_sizes=(6, 5), activation=nn.ReLU),
    "linear MLP": lambda: MLP(4, hidden_sizes=()),
    "dropout of zero": lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0), nn.Linear(3, 1)),
}
FUNCTIONAL = {
    "custom forward": Custom,
    "tied": Tied,
    "same layer twice": lambda: (lambda x: nn.Sequential(x, nn.Tanh(), x, nn.Linear(4, 1)))(
        nn.Linear(4, 4)
    ),
    "layer norm": lambda: nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 1)),
    "subclass of Linear": lambda: nn.Sequential(type("L", (nn.Linear,), {})(4, 1)),
    "parametrised": lambda: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), nn.Linear(3, 1)
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(
    ("path", "make"),
    [pytest.param("fused", make, id=name) for name, make in FUSED.items()]
    + [pytest.param("functional", make, id=name) for name, make in FUNCTIONAL.items()],
)
@pytest.mark.parametrize("max_norm", [0.05, 1.0, 100.0])
def test_sum_equals_a_loop_over_records(path, make, dtype, max_norm):
    torch.manual_seed(0)
    module, _, clipper = build(make(), dtype)
    X, y, weights = binary_rows(17, dtype=dtype)
    assert clipper.path == path
    got = clipper.clipped_sums(X, (y,), max_norm, weights)
    double = module.double()
    objective = objective_for(BINARY)
    want = clipped_sum(double, objective, X.double(), (y.double(),), max_norm, weights)
    assert_close(got, want, weights, max_norm)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_derivative_of_every_fused_activation(activation):
    torch.manual_seed(1)
    module, _, clipper = build(
        nn.Sequential(nn.Linear(4, 6), activation, nn.Linear(6, 1), nn.Flatten())
    )
    X, y, weights = binary_rows(33)
    assert clipper.path == "fused"
    got = clipper.clipped_sums(3 * X, (y,), 0.5, weights)
    want = clipped_sum(module, objective_for(BINARY), 3 * X, (y,), 0.5, weights)
    assert_close(got, want, weights, 0.5)


@pytest.mark.parametrize(
    "criterion",
    [
        nn.CrossEntropyLoss(),
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]).double(), label_smoothing=0.1),
        nn.NLLLoss(),
    ],
    ids=["cross entropy", "weighted cross entropy", "probabilities"],
)
def test_several_logits(criterion):
    torch.manual_seed(2)
    layers: list[nn.Module] = [nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)]
    if isinstance(criterion, nn.NLLLoss):
        layers.append(nn.Softmax(dim=-1))
    module, _, clipper = build(nn.Sequential(*layers), criterion=criterion)
    X, _, weights = binary_rows(20)
    y = torch.arange(20) % 3
    got = clipper.clipped_sums(X, (y,), 0.3, weights)
    want = clipped_sum(module, objective_for(criterion), X, (y,), 0.3, weights)
    assert clipper.path == "fused"
    assert_close(got, want, weights, 0.3)


@pytest.mark.parametrize("make", [Custom, lambda: MLP(4)], ids=["functional", "fused"])
def test_several_weight_rows_give_several_sums(make):
    module, flat, clipper = build(make())
    X, y, _ = binary_rows(12)
    weights = torch.rand(3, 12, dtype=torch.float64)
    weights[0, :6] = 0.0
    weights[1] = 0.0
    got = clipper.clipped_sums(X, (y,), 0.3, weights)
    assert got.shape == (3, flat.vector.numel())
    assert_close(
        got, clipped_sum(module, objective_for(BINARY), X, (y,), 0.3, weights), weights, 0.3
    )
    assert bool((got[1] == 0).all())


@pytest.mark.parametrize("make", [Custom, lambda: MLP(4)], ids=["functional", "fused"])
def test_output_with_a_column_never_broadcasts_against_flat_targets(make):
    _, _, clipper = build(make())
    X, y, _ = binary_rows(64)
    for target in (y, y[:, None]):
        total = clipper.clipped_sums(10 * X, (target,), 0.5, torch.ones(64).double())
        assert float(total.norm()) <= 64 * 0.5


@pytest.mark.parametrize("make", [Custom, lambda: MLP(4), lambda: SmallCNN((1, 2, 2))])
@pytest.mark.parametrize("shape", [(), (2,)], ids=["one sum", "two sums"])
def test_empty_batch_gives_zeros_after_a_full_one(make, shape):
    _, flat, clipper = build(make())
    X, y, _ = binary_rows(5)
    clipper.clipped_sums(X, (y,), 1.0, torch.ones(*shape, 5).double())
    total = clipper.clipped_sums(X[:0], (y[:0],), 1.0, torch.ones(*shape, 0).double())
    assert total.shape == (*shape, flat.vector.numel())
    assert bool((total == 0).all())


@pytest.mark.parametrize("make", [Custom, lambda: MLP(4), lambda: MLP(4, activation=nn.ReLU)])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e200])
def test_unusable_rows_contribute_nothing_and_change_nothing(make, bad):
    _, _, clipper = build(make(), torch.float64)
    X, y, weights = binary_rows(9)
    X[4] = bad
    got = clipper.clipped_sums(X, (y,), 0.7, weights).clone()
    keep = torch.arange(9) != 4
    want = clipper.clipped_sums(X[keep], (y[keep],), 0.7, weights[keep])
    assert bool(got.isfinite().all())
    # One record within its bound at most; none at all when the row is not a number.
    slack = float(weights[4]) * 0.7 if bad == 1e200 else 1e-12
    assert float((got - want).norm()) <= slack


@pytest.mark.parametrize("make", [Custom, lambda: MLP(4)], ids=["functional", "fused"])
def test_huge_but_finite_gradients_are_clipped_not_dropped(make):
    torch.manual_seed(3)
    module, _, clipper = build(make(), torch.float32)
    X, y, _ = binary_rows(6, dtype=torch.float32)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1e-9)
    for i in range(6):
        total = clipper.clipped_sums(1e12 * X[i : i + 1], (y[i : i + 1],), 2.0, torch.ones(1))
        assert float(total.double().norm()) == pytest.approx(2.0, rel=1e-4)


def test_zero_gradients_are_fine():
    module, _, clipper = build(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        module[2].bias.fill_(1e6)
    X, _, weights = binary_rows(5)
    total = clipper.clipped_sums(X, (torch.ones(5).double(),), 1.0, weights)
    assert bool((total == 0).all())


@pytest.mark.parametrize("frozen", ["0.weight", "0.bias", "2.weight", "2.bias", "0", "2"])
def test_frozen_parameters_enter_neither_norm_nor_sum(frozen):
    torch.manual_seed(4)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    module, _, clipper = build(module)
    X, y, weights = binary_rows(11)
    got = clipper.clipped_sums(X, (y,), 0.2, weights)
    assert clipper.path == "fused"
    assert len(got) == sum(p.numel() for p in module.parameters() if p.requires_grad)
    assert_close(
        got, clipped_sum(module, objective_for(BINARY), X, (y,), 0.2, weights), weights, 0.2
    )


def test_frozen_parameters_in_the_functional_path():
    module = Custom().double()
    module.first.weight.requires_grad_(False)
    module, _, clipper = build(module)
    X, y, weights = binary_rows(11)
    got = clipper.clipped_sums(X, (y,), 0.2, weights)
    assert_close(
        got, clipped_sum(module, objective_for(BINARY), X, (y,), 0.2, weights), weights, 0.2
    )


@pytest.mark.parametrize("flattened", [True, False])
def test_images(flattened):
    torch.manual_seed(5)
    module, _, clipper = build(SmallCNN((1, 16, 16), channels=(4, 8)))
    X, y, weights = binary_rows(7, (1, 16, 16))
    rows = X.flatten(1) if flattened else X
    got = clipper.clipped_sums(rows, (y,), 0.2, weights)
    assert clipper.path == "functional"
    assert_close(
        got, clipped_sum(module, objective_for(BINARY), rows, (y,), 0.2, weights), weights, 0.2
    )


CONVOLUTIONS = {
    "strides, padding, dilation": lambda: nn.Sequential(
        nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3 * 4 * 6, 1),
    ),
    "norm and pools": lambda: nn.Sequential(
        nn.Sequential(nn.Conv2d(2, 4, 3, bias=False), nn.GroupNorm(2, 4), nn.SiLU()),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 1),
        nn.GroupNorm(4, 4, affine=False),
        nn.AvgPool2d(3),
        nn.Flatten(),
        nn.Linear(4, 3),
        nn.Tanh(),
        nn.Linear(3, 1, bias=False),
    ),
    "frozen first layer": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3).requires_grad_(False),
        nn.Tanh(),
        nn.Conv2d(4, 2, 3),
        nn.Flatten(),
        nn.Linear(32, 1),
    ),
    "groups": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, groups=2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 1)
    ),
    "channels last": lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(108, 1)).to(
        memory_format=torch.channels_last
    ),
    "inactive dropout": lambda: nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.Dropout(0.0), nn.Flatten(), nn.Linear(108, 1)
    ),
}


@pytest.mark.parametrize("make", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
@pytest.mark.parametrize("patches", [1, 1 << 17])
def test_convolutions(make, patches, monkeypatch):
    monkeypatch.setattr("skfairdp.engine.clipping.layered._PATCH_ELEMENTS", patches)
    torch.manual_seed(8)
    module, _, clipper = build(make())
    X, y, weights = binary_rows(9, (2, 8, 8))
    X[3] = float("nan")
    for max_norm in (0.05, 100.0):
        got = clipper.clipped_sums(X, (y,), max_norm, weights)
        want = clipped_sum(module, objective_for(BINARY), X, (y,), max_norm, weights)
        assert_close(got, want, weights, max_norm)


@pytest.mark.parametrize("make", CONVOLUTIONS.values(), ids=CONVOLUTIONS.keys())
def test_convolutions_go_back_by_patches_on_other_devices(make, monkeypatch):
    monkeypatch.setattr(layered, "_by_channels_last", layered._by_patches)
    test_convolutions(make, 1 << 17, monkeypatch)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), ((3, 1), (2, 0), 2)]
)
def test_both_ways_back_through_a_convolution_agree(stride, padding, dilation):
    layer = nn.Conv2d(2, 3, 3, stride=stride, padding=padding, dilation=dilation).double()
    X = torch.randn(5, 2, 11, 10, dtype=torch.float64)
    delta = torch.randn_like(layer(X))
    weight = layer.weight.detach()
    some = layered._by_channels_last(layer, X.shape, weight, delta)
    torch.testing.assert_close(layered._by_patches(layer, X.shape, weight, delta), some)


@pytest.mark.parametrize(("device", "parts"), [("cpu", 3), ("meta", 1)])
def test_products_of_patches_are_of_one_shape(device, parts, monkeypatch):
    """A shorter last part may be rounded otherwise, as a GPU's products of 40 and 16 rows were."""
    seen, multiply = [], torch.bmm

    def watched(left, right, *, out):
        seen.append(left.shape)
        return multiply(left, right, out=out)

    monkeypatch.setattr(torch, "bmm", watched)
    layer = nn.Conv2d(1, 16, 5, stride=3, padding=2, device=device)
    images, delta = (torch.zeros(96, *s, device=device) for s in ((1, 48, 48), (16, 16, 16)))
    assert layered._patch_products(layer, images, delta, 96).shape == (96, 16, 25)
    assert len(seen) == parts
    assert len(set(seen)) == 1


def test_active_dropout_between_convolutions_differs_by_record():
    module, _, clipper = build(
        nn.Sequential(nn.Conv2d(1, 2, 2), nn.Dropout(0.5), nn.Flatten(), nn.Linear(18, 1))
    )
    X, y, _ = binary_rows(1, (1, 4, 4))
    module.train()
    with OwnDraws(np.random.default_rng(0)):
        sums = clipper.clipped_sums(
            X.expand(2, 1, 4, 4), (y.expand(2),), 1e9, torch.eye(2).double()
        )
    assert not torch.equal(sums[0], sums[1])


@pytest.mark.parametrize("shape", [(2, 2), (4,)])
def test_flatten_in_front_is_fused(shape):
    module, _, clipper = build(nn.Sequential(nn.Flatten(), nn.Linear(4, 1)))
    X, y, weights = binary_rows(7, shape)
    assert clipper.path == "fused"
    got = clipper.clipped_sums(X, (y,), 0.2, weights)
    assert_close(
        got, clipped_sum(module, objective_for(BINARY), X, (y,), 0.2, weights), weights, 0.2
    )


def test_linear_layers_on_sequences_are_summed_over_positions():
    module, _, clipper = build(
        nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(15, 1))
    )
    X, y, weights = binary_rows(6, (5, 4))
    got = clipper.clipped_sums(X, (y,), 0.2, weights)
    assert_close(
        got, clipped_sum(module, objective_for(BINARY), X, (y,), 0.2, weights), weights, 0.2
    )


def test_active_dropout_leaves_the_fused_path_and_differs_by_record():
    torch.manual_seed(6)
    module, _, clipper = build(nn.Sequential(nn.Linear(4, 50), nn.Dropout(0.5), nn.Linear(50, 1)))
    X, y, _ = binary_rows(1)
    same, target = X.expand(2, 4), y.expand(2)
    weights = torch.eye(2).double()
    module.train()
    with OwnDraws(np.random.default_rng(0)):
        first, second = clipper.clipped_sums(same, (target,), 1e9, weights).clone()
    assert not torch.equal(first, second)
    module.eval()
    first, second = clipper.clipped_sums(same, (target,), 1e9, weights)
    assert torch.equal(first, second)


@pytest.mark.parametrize("make", [Custom, lambda: MLP(4)], ids=["functional", "fused"])
def test_chunks_do_not_change_the_sum(make, monkeypatch):
    module, flat, whole = build(make())
    X, y, _ = binary_rows(31)
    weights = torch.rand(2, 31, dtype=torch.float64)
    want = whole.clipped_sums(X, (y,), 0.3, weights).clone()
    in_blocks_of_eight(monkeypatch)
    got = make_clipper(module, flat, objective_for(BINARY)).clipped_sums(X, (y,), 0.3, weights)
    assert_close(got, want, weights, 0.3)


def test_nothing_stays_on_the_module():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 1)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, X: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1.0)
            return self.head(X)

    for make in (Counting, lambda: MLP(4)):
        module, _, clipper = build(make())
        before = {name: value.clone() for name, value in module.state_dict().items()}
        attributes = set(vars(module))
        X, y, weights = binary_rows(8)
        clipper.clipped_sums(X, (y,), 1.0, weights)
        assert set(vars(module)) == attributes
        assert all(p.grad is None for p in module.parameters())
        assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())
        assert not any(m._forward_hooks or m._backward_hooks for m in module.modules())


def test_buffer_that_learns_from_rows_is_refused_by_name():
    class Averaging(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 1)
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, X: torch.Tensor) -> torch.Tensor:
            self.mean.mul_(0.9).add_(0.1 * X.mean(0))
            return self.head(X - self.mean)

    module, _, clipper = build(Averaging())
    X, y, weights = binary_rows(8)
    with pytest.raises(ValueError, match="Averaging writes values of its rows"):
        clipper.clipped_sums(X, (y,), 1.0, weights)
    assert bool((module.mean == 0).all())


def test_data_dependent_control_flow_is_refused_by_name():
    class Deciding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 1)

        def forward(self, X: torch.Tensor) -> torch.Tensor:
            return self.head(X) if X.sum() > 0 else -self.head(X)

    _, _, clipper = build(Deciding())
    X, y, weights = binary_rows(8)
    with pytest.raises(ValueError, match="Deciding decides by the values"):
        clipper.clipped_sums(X, (y,), 1.0, weights)


def test_global_random_state_is_left_alone():
    for make in (Custom, lambda: MLP(4)):
        _, _, clipper = build(make())
        X, y, weights = binary_rows(8)
        state = torch.get_rng_state()
        clipper.clipped_sums(X, (y,), 1.0, weights)
        assert torch.equal(torch.get_rng_state(), state)


def test_sums_may_be_changed_by_the_caller():
    """The buffer is an ordinary tensor, not one locked to inference mode."""
    for make in (Custom, lambda: MLP(4)):
        _, flat, clipper = build(make())
        X, y, weights = binary_rows(8)
        total = clipper.clipped_sums(X, (y,), 1.0, weights)
        total.add_(1.0)
        flat.vector.sub_(total)


def exact_norms(module: nn.Module, X: torch.Tensor, y: torch.Tensor, clipper, max_norm: float):
    """Norms, in float64, of what each record adds to the float32 sum."""
    eye = torch.eye(len(X), dtype=X.dtype)
    return clipper.clipped_sums(X, (y,), max_norm, eye).double().norm(dim=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(200_000, 1),
        lambda: nn.Sequential(nn.Linear(20_000, 20), nn.ReLU(), nn.Linear(20, 1)),
        lambda: nn.Sequential(nn.Linear(3, 30_000), nn.Tanh(), nn.Linear(30_000, 1)),
        lambda: nn.Sequential(nn.Linear(20_000, 20), nn.LayerNorm(20), nn.Linear(20, 1)),
    ],
    ids=["wide linear", "wide input", "wide hidden", "functional"],
)
@pytest.mark.parametrize(
    "rows",
    [
        "equal entries",
        "random",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("one large entry first", "tiny")),
    ],
)
def test_no_record_exceeds_the_clip_norm_by_rounding(make, rows):
    torch.manual_seed(7)
    module, _, clipper = build(make(), torch.float32)
    width = next(module.parameters()).shape[1]
    X = torch.ones(6, width) * torch.linspace(0.9, 1.3, 6)[:, None]
    if rows == "one large entry first":
        X = X * 3e-4
        X[:, 0] = 1.0
    elif rows == "random":
        X = torch.randn(6, width) * 1.7
    elif rows == "tiny":
        X = X * 1e-22
    y = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    for max_norm in (0.1, 0.7):
        assert float(exact_norms(module, X, y, clipper, max_norm).max()) <= max_norm


@pytest.mark.slow
def test_squares_below_the_smallest_float_are_not_lost():
    """The squares of the upstream gradients vanish in float32, their sum should not."""
    width = 500_000
    module = nn.Sequential(nn.Linear(1, width, bias=False), nn.Linear(width, 1, bias=False))
    with torch.no_grad():
        module[0].weight.zero_()
        module[1].weight.fill_(1e-23)
    module[1].weight.requires_grad_(False)
    module, _, clipper = build(module, torch.float32)
    X, y = torch.full((1, 1), 1e19), torch.zeros(1)
    raw = row_gradients(module, objective_for(BINARY), X, (y,)).double().norm()
    total = clipper.clipped_sums(X, (y,), 1e-3, torch.ones(1))
    assert float(raw) > 1e-2
    assert float(total.double().norm()) <= 1e-3


def test_margin_grows_with_the_terms_and_is_refused_when_it_says_nothing():
    assert rounding_margin(torch.float64, 10_000) < 1e-11
    assert rounding_margin(torch.float32, 100) < rounding_margin(torch.float32, 1000) < 1e-4
    with pytest.raises(ValueError, match="float64"):
        rounding_margin(torch.float32, 10**8)


@pytest.mark.parametrize("make", [Custom, lambda: MLP(4)], ids=["functional", "fused"])
@pytest.mark.parametrize("precision", ["high", "medium"])
def test_sums_need_no_margin_for_products_in_lower_precision(make, precision):
    """Sums are float64 products, which no such setting touches."""
    module, _, clipper = build(make(), torch.float32)
    X, y, _ = binary_rows(20, dtype=torch.float32)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        norms = exact_norms(module, X, y, clipper, 0.01) / 0.01
    finally:
        torch.set_float32_matmul_precision(before)
    assert 1.0 - 1e-5 <= float(norms.max()) <= 1.0


@pytest.mark.parametrize("make", [Custom, lambda: MLP(4)], ids=["functional", "fused"])
def test_clipping_is_tight_and_never_above(make):
    """Fails when the clipping norm is doubled, and when clipping is needlessly strict."""
    module, _, clipper = build(make())
    X, y, _ = binary_rows(40)
    raw = row_gradients(module, objective_for(BINARY), X, (y,)).norm(dim=1)
    max_norm = float(raw.median())
    norms = exact_norms(module, X, y, clipper, max_norm)
    assert float(norms.max()) <= max_norm
    torch.testing.assert_close(norms, raw.clamp(max=max_norm), rtol=1e-9, atol=0.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("make", [Custom, lambda: MLP(4)], ids=["functional", "fused"])
def test_cuda_gives_the_sum_of_the_cpu(make):
    module, _, clipper = build(make())
    X, y, weights = binary_rows(12)
    want = clipper.clipped_sums(X, (y,), 0.3, weights).clone()
    _, _, clipper = build(module.cuda())
    got = clipper.clipped_sums(X.cuda(), (y.cuda(),), 0.3, weights.cuda())
    assert_close(got.cpu(), want, weights, 0.3)


PATHS = {
    "fused": (lambda: MLP(4, hidden_sizes=(6, 5)), (4,)),
    "fused with a tail": (
        lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1), nn.Tanh()),
        (4,),
    ),
    "functional": (Custom, (4,)),
    "layered": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(2, 1)),
        (1, 2, 2),
    ),
    "layered images": (lambda: SmallCNN((1, 16, 16), channels=(4, 8)), (1, 16, 16)),
}
every_path = pytest.mark.parametrize(("make", "shape"), PATHS.values(), ids=PATHS.keys())


@pytest.fixture(params=["one piece", "chunks"])
def chunked(request, monkeypatch):
    if request.param == "chunks":
        in_blocks_of_eight(monkeypatch)


@every_path
@pytest.mark.usefixtures("chunked")
def test_outputs_are_those_of_the_module_in_the_order_of_the_rows(make, shape):
    torch.manual_seed(9)
    module, _, clipper = build(make())
    X, y, weights = binary_rows(23, shape)
    outputs: list[torch.Tensor] = []
    with_outputs = clipper.clipped_sums(X, (y,), 0.3, weights, outputs).clone()
    got = torch.cat(outputs)
    assert not got.requires_grad
    torch.testing.assert_close(got.reshape(-1), module(X).detach().reshape(-1))
    # Asking for them changes nothing, and what is done to them does not come back.
    got.zero_()
    assert torch.equal(clipper.clipped_sums(X, (y,), 0.3, weights), with_outputs)
    empty: list[torch.Tensor] = []
    clipper.clipped_sums(X[:0], (y[:0],), 0.3, weights[:0], empty)
    assert sum(len(piece) for piece in empty) == 0


@every_path
@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_every_record_may_have_a_clip_norm_of_its_own(make, shape, dtype):
    torch.manual_seed(10)
    module, _, clipper = build(make(), dtype)
    X, y, weights = binary_rows(29, shape, dtype)
    raw = clipper.norms(X, (y,))
    limits = raw * torch.linspace(0.1, 1.5, 29, dtype=torch.float64)  # some bind, some do not
    got = clipper.clipped_sums(X, (y,), limits, weights)
    double = module.double()
    want = clipped_sum(
        double, objective_for(BINARY), X.double(), (y.double(),), limits, weights.double()
    )
    assert_close(got, want, weights, float(limits.max()))
    if dtype == torch.float64:
        _, _, clipper = build(double)
        single = clipper.clipped_sums(X, (y,), limits, torch.eye(29).double()).norm(dim=1)
        assert bool((single <= limits).all())
        assert bool((single >= 0.999 * torch.minimum(limits, raw)).all())


@every_path
@pytest.mark.usefixtures("chunked")
def test_norms_are_those_of_the_records_gradients(make, shape):
    torch.manual_seed(11)
    module, _, clipper = build(make())
    X, y, _ = binary_rows(21, shape)
    X[5] = float("nan")
    norms = clipper.norms(X, (y,))
    assert norms.dtype == torch.float64
    assert norms.shape == (21,)
    assert not norms.requires_grad
    keep = torch.arange(21) != 5
    raw = row_gradients(module, objective_for(BINARY), X[keep], (y[keep],)).norm(dim=1)
    torch.testing.assert_close(norms[keep], raw, rtol=1e-9, atol=0.0)
    assert bool((norms[keep] >= raw * (1 - 1e-12)).all())
    assert not bool(norms[5].isfinite())
    assert clipper.norms(X[:0], (y[:0],)).shape == (0,)


@every_path
def test_a_record_that_is_no_number_changes_nobody_elses_output(make, shape):
    module, _, clipper = build(make())
    X, y, weights = binary_rows(9, shape)
    X[4] = float("nan")
    outputs: list[torch.Tensor] = []
    clipper.clipped_sums(X, (y,), 0.7, weights, outputs)
    keep = torch.arange(9) != 4
    torch.testing.assert_close(
        torch.cat(outputs).reshape(-1)[keep], module(X[keep]).detach().reshape(-1)
    )


@pytest.mark.parametrize(
    "kind", ["forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook"]
)
def test_a_module_with_a_hook_is_not_taken_apart(kind):
    module = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    assert [name for name, _ in leaves_of(module)] == ["0", "1"]
    getattr(module, f"register_{kind}")(lambda *given: None)
    assert leaves_of(module) is None


def test_a_net_that_takes_rows_one_by_one_is_not_asked_for_rows_that_fill_up_a_block():
    class Counted(nn.Module):
        asked = 0

        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.GRU(3, 2, batch_first=True), nn.Linear(2, 1)

        def forward(self, X: torch.Tensor) -> torch.Tensor:
            Counted.asked += 1
            return self.head(self.layer(X)[0][:, -1])

    module, _, clipper = build(Counted())
    X, y, weights = binary_rows(3, (2, 3))
    empty = X.new_zeros(45, 2, 3)
    filled, labels = torch.cat([X, empty]), torch.cat([y, y.new_zeros(45)])
    clipper.clipped_sums(filled, (labels,), 0.5, weights)  # finds out that rows go one by one
    assert clipper.one_by_one
    Counted.asked, outputs = 0, []
    got = clipper.clipped_sums(filled, (labels,), 0.5, weights, outputs)
    assert Counted.asked == 3
    assert len(torch.cat(outputs)) == 3
    assert_close(
        got, clipped_sum(module, objective_for(BINARY), X, (y,), 0.5, weights), weights, 0.5
    )
