"""Per-record gradients of layers of torch: those of torch.func, or a refusal by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.utils import parametrizations

from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.inspection import refuse_mixing_modules, refuse_unstable_rows
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten

ROWS = 7
LINE, IMAGE, VOLUME, STEPS = (6,), (4, 6, 6), (2, 4, 4, 4), (5, 6)


class Of(nn.Module):
    """A layer before a linear head, with what it needs around it."""

    def __init__(self, layer: nn.Module, size: int, call: Callable[..., Tensor] | None = None):
        super().__init__()
        self.before = nn.Linear(6, 6)
        self.layer = layer
        self.head = nn.Linear(size, 1)
        self.call = call

    def forward(self, X: Tensor) -> Tensor:
        if X.shape[-1] == 6:  # so that there is a parameter before the layer too
            X = self.before(X)
        found = self.layer(X) if self.call is None else self.call(self.layer, X)
        return self.head(found.flatten(1))


class Coded(nn.Module):
    """A layer of codes before a linear head."""

    def __init__(self, layer: nn.Module, size: int):
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(size, 1)

    def forward(self, X: Tensor) -> Tensor:
        return self.head(self.layer((X.abs() * 3).long().clamp(max=7)).flatten(1))


def first(layer: nn.Module, X: Tensor) -> Tensor:
    return layer(X)[0]


def itself(layer: nn.Module, X: Tensor) -> Tensor:
    return layer(X, X, X)[0]


def twice(layer: nn.Module, X: Tensor) -> Tensor:
    return layer(X, X)


def pairs(layer: nn.Module, X: Tensor) -> Tensor:
    return layer(X, X.roll(1, dims=-1))[:, None]


def by_step(layer: nn.Module, X: Tensor) -> Tensor:
    state: Any = None
    for step in range(X.shape[1]):
        state = layer(X[:, step], state)
    return state[0] if isinstance(state, tuple) else state


# Each is (shape of a row, module).
TAKEN: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "Linear": (LINE, lambda: Of(nn.Linear(6, 4), 4)),
    "Bilinear": (LINE, lambda: Of(nn.Bilinear(6, 6, 3), 3, twice)),
    "Conv1d": (STEPS, lambda: Of(nn.Conv1d(5, 3, 2, padding=1), 21)),
    "Conv2d": (IMAGE, lambda: Of(nn.Conv2d(4, 3, 3, stride=2, padding=1), 27)),
    "Conv2d in groups": (IMAGE, lambda: Of(nn.Conv2d(4, 4, 3, groups=2), 64)),
    "Conv2d, dilated, reflected": (
        IMAGE,
        lambda: Of(nn.Conv2d(4, 2, 3, dilation=2, padding=1, padding_mode="reflect"), 32),
    ),
    "Conv3d": (VOLUME, lambda: Of(nn.Conv3d(2, 2, 3), 16)),
    "ConvTranspose1d": (STEPS, lambda: Of(nn.ConvTranspose1d(5, 2, 2), 14)),
    "ConvTranspose2d": (IMAGE, lambda: Of(nn.ConvTranspose2d(4, 2, 2), 98)),
    "ConvTranspose3d": (VOLUME, lambda: Of(nn.ConvTranspose3d(2, 1, 2), 125)),
    "GroupNorm": (IMAGE, lambda: Of(nn.GroupNorm(2, 4), 144)),
    "LayerNorm": (LINE, lambda: Of(nn.LayerNorm(6), 6)),
    "RMSNorm": (LINE, lambda: Of(nn.RMSNorm(6), 6)),
    "LocalResponseNorm": (IMAGE, lambda: Of(nn.LocalResponseNorm(2), 144)),
    "InstanceNorm1d": (STEPS, lambda: Of(nn.InstanceNorm1d(5, affine=True), 30)),
    "InstanceNorm2d": (IMAGE, lambda: Of(nn.InstanceNorm2d(4, affine=True), 144)),
    "Embedding": (LINE, lambda: Coded(nn.Embedding(8, 3), 18)),
    "Embedding, padded": (LINE, lambda: Coded(nn.Embedding(8, 3, padding_idx=0), 18)),
    "EmbeddingBag": (LINE, lambda: Coded(nn.EmbeddingBag(8, 3, mode="mean"), 3)),
    "EmbeddingBag of largest": (LINE, lambda: Coded(nn.EmbeddingBag(8, 3, mode="max"), 3)),
    "RNN": (STEPS, lambda: Of(nn.RNN(6, 3, batch_first=True), 15, first)),
    "LSTM": (STEPS, lambda: Of(nn.LSTM(6, 3, batch_first=True), 15, first)),
    "LSTM both ways": (
        STEPS,
        lambda: Of(nn.LSTM(6, 3, batch_first=True, bidirectional=True), 30, first),
    ),
    "GRU": (STEPS, lambda: Of(nn.GRU(6, 3, num_layers=2, batch_first=True), 15, first)),
    "RNNCell": (STEPS, lambda: Of(nn.RNNCell(6, 3), 3, by_step)),
    "LSTMCell": (STEPS, lambda: Of(nn.LSTMCell(6, 3), 3, by_step)),
    "GRUCell": (STEPS, lambda: Of(nn.GRUCell(6, 3), 3, by_step)),
    "MultiheadAttention": (
        STEPS,
        lambda: Of(nn.MultiheadAttention(6, 2, batch_first=True), 30, itself),
    ),
    "TransformerEncoderLayer": (
        STEPS,
        lambda: Of(nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True), 30),
    ),
    "PReLU": (LINE, lambda: Of(nn.PReLU(), 6)),
    "PReLU by channel": (IMAGE, lambda: Of(nn.PReLU(4), 144)),
    "ELU": (LINE, lambda: Of(nn.ELU(), 6)),
    "CELU": (LINE, lambda: Of(nn.CELU(), 6)),
    "SELU": (LINE, lambda: Of(nn.SELU(), 6)),
    "GLU": (LINE, lambda: Of(nn.GLU(), 3)),
    "Hardswish": (LINE, lambda: Of(nn.Hardswish(), 6)),
    "Hardtanh": (LINE, lambda: Of(nn.Hardtanh(), 6)),
    "Hardshrink": (LINE, lambda: Of(nn.Hardshrink(), 6)),
    "LogSigmoid": (LINE, lambda: Of(nn.LogSigmoid(), 6)),
    "Mish": (LINE, lambda: Of(nn.Mish(), 6)),
    "ReLU6": (LINE, lambda: Of(nn.ReLU6(), 6)),
    "Softmax": (LINE, lambda: Of(nn.Softmax(dim=-1), 6)),
    "LogSoftmax": (LINE, lambda: Of(nn.LogSoftmax(dim=-1), 6)),
    "Softmin": (LINE, lambda: Of(nn.Softmin(dim=-1), 6)),
    "Softshrink": (LINE, lambda: Of(nn.Softshrink(), 6)),
    "Softsign": (LINE, lambda: Of(nn.Softsign(), 6)),
    "Tanhshrink": (LINE, lambda: Of(nn.Tanhshrink(), 6)),
    "Threshold": (LINE, lambda: Of(nn.Threshold(0.1, 0.0), 6)),
    "MaxPool2d": (IMAGE, lambda: Of(nn.MaxPool2d(2), 36)),
    "AvgPool2d": (IMAGE, lambda: Of(nn.AvgPool2d(2), 36)),
    "LPPool2d": (IMAGE, lambda: Of(nn.LPPool2d(2, 2), 36)),
    "AdaptiveAvgPool2d": (IMAGE, lambda: Of(nn.AdaptiveAvgPool2d(2), 16)),
    "AdaptiveMaxPool1d": (STEPS, lambda: Of(nn.AdaptiveMaxPool1d(2), 10)),
    "PixelShuffle": (IMAGE, lambda: Of(nn.PixelShuffle(2), 144)),
    "ChannelShuffle": (IMAGE, lambda: Of(nn.ChannelShuffle(2), 144)),
    "Upsample": (IMAGE, lambda: Of(nn.Upsample(scale_factor=2), 576)),
    "Unfold": (IMAGE, lambda: Of(nn.Unfold(3), 576)),
    "ZeroPad2d": (IMAGE, lambda: Of(nn.ZeroPad2d(1), 256)),
    "CosineSimilarity": (LINE, lambda: Of(nn.CosineSimilarity(dim=-1), 1, pairs)),
    "weight_norm": (LINE, lambda: Of(parametrizations.weight_norm(nn.Linear(6, 4)), 4)),
    "orthogonal": (LINE, lambda: Of(parametrizations.orthogonal(nn.Linear(6, 6)), 6)),
    "Dropout of zero": (LINE, lambda: Of(nn.Dropout(0.0), 6)),
}
# Each with words of its refusal.
REFUSED: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module], str]] = {
    "BatchNorm1d": (STEPS, lambda: Of(nn.BatchNorm1d(5), 30), "'layer' \\(BatchNorm1d\\)"),
    "BatchNorm2d": (IMAGE, lambda: Of(nn.BatchNorm2d(4), 144), "'layer' \\(BatchNorm2d\\)"),
    "BatchNorm3d": (VOLUME, lambda: Of(nn.BatchNorm3d(2), 128), "'layer' \\(BatchNorm3d\\)"),
    "SyncBatchNorm": (IMAGE, lambda: Of(nn.SyncBatchNorm(4), 144), "'layer' \\(SyncBatchNorm\\)"),
    "InstanceNorm2d with statistics": (
        IMAGE,
        lambda: Of(nn.InstanceNorm2d(4, track_running_stats=True), 144),
        "keeps running statistics",
    ),
    "Embedding that renormalises": (
        LINE,
        lambda: Coded(nn.Embedding(8, 3, max_norm=1.0), 18),
        "'layer' \\(Embedding\\) has max_norm",
    ),
    "sparse Embedding": (
        LINE,
        lambda: Coded(nn.Embedding(8, 3, sparse=True), 18),
        "'layer' \\(Embedding\\) has sparse=True",
    ),
    "spectral_norm": (
        LINE,
        lambda: Of(parametrizations.spectral_norm(nn.Linear(6, 4)), 4),
        "changes its state in training mode: layer",
    ),
    "softmax over records": (
        LINE,
        lambda: Of(nn.Softmax(dim=0), 6),
        "The module Of mixes the records",
    ),
}


def gradients(module: nn.Module, X: Tensor, y: Tensor) -> Tensor:
    """Gradients (n, p), each by torch.func on its own record."""
    parameters = dict(module.named_parameters())

    def loss(values: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        output = functional_call(module, values, (row[None],))[0, 0]
        return nn.functional.binary_cross_entropy_with_logits(output, label)

    found = [grad(loss)(parameters, row, label) for row, label in zip(X, y, strict=True)]
    return torch.stack([torch.cat([of[n].reshape(-1) for n in parameters]) for of in found])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", TAKEN)
def test_clipped_sums_are_those_of_torch_func(name: str) -> None:
    shape, make = TAKEN[name]
    torch.manual_seed(0)
    module = make().double()
    refuse_mixing_modules(module)
    refuse_unstable_rows(module, shape)
    X = torch.randn(ROWS, *shape, dtype=torch.float64)
    y, weights = (torch.arange(ROWS) % 2).double(), torch.rand(ROWS, dtype=torch.float64)
    clipper = make_clipper(module, flatten(module), objective_for(nn.BCEWithLogitsLoss()))
    each = gradients(module, X, y).detach()
    lengths = each.norm(dim=1).clamp(min=1e-300)
    for norm in (0.05, 100.0):
        got = clipper.clipped_sums(X, (y,), norm, weights)
        want = (weights * (norm / lengths).clamp(max=1.0)) @ each
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10 * norm)


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_other_layers_are_refused_by_name(name: str) -> None:
    shape, make, words = REFUSED[name]
    module = make().double()
    with pytest.raises(ValueError, match=words):  # noqa: PT012  (one of two checks)
        refuse_mixing_modules(module)
        refuse_unstable_rows(module, shape)


def test_fifty_kinds_are_compared() -> None:
    assert len(TAKEN) >= 50
