"""Modules with a known forward pass: the default nets, and stacks of linear layers.

The default nets are a perceptron for tables and a small network for images. Both consist of
``features`` (everything but the last layer) and a linear ``head``, the split that weight clipping
and ensembles of heads rely on.

Only structures with a known forward pass count as a stack: exactly ``nn.Sequential`` (nested at any
depth) and exactly :class:`MLP`, without hooks. A module with its own forward may do anything with
its linear layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn


class MLP(nn.Module):
    """Multi-layer perceptron.

    `n_features`: number of columns of the input. `n_outputs`: number of outputs: 1 logit for two
    classes, K logits for K. `hidden_sizes`: widths of the hidden layers; empty for a linear
    model. `activation`: class of the activation after every hidden layer. Bounded activations
    keep per-record gradients small, which suits clipping.

    Examples
    --------
    >>> import torch
    >>> from skfairdp.engine.modules import MLP
    >>> MLP(5, hidden_sizes=(8, 4))(torch.zeros(3, 5)).shape
    torch.Size([3, 1])
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int = 1,
        hidden_sizes: Sequence[int] = (64,),
        activation: type[nn.Module] = nn.Tanh,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = n_features
        for hidden in hidden_sizes:
            layers += [nn.Linear(width, hidden), activation()]
            width = hidden
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(width, n_outputs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (B, n_outputs), of rows of shape (B, n_features)."""
        scores: torch.Tensor = self.head(self.features(X))
        return scores


class OfEachRow(nn.Module):
    """A function of each row of another module's output, by itself."""

    module: nn.Module


class SomeInputs(nn.Module):
    """Some columns of the input, scaled; it has no weights.

    `places`: of the columns. `scale`: factor on each entry.
    """

    def __init__(self, places: Sequence[int], scale: float) -> None:
        super().__init__()
        self.register_buffer("_places", torch.tensor(places))
        self._scale = scale

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the columns, shape (B, number of places)."""
        places: torch.Tensor = self.get_buffer("_places")
        return X.index_select(-1, places) * self._scale


class CellInputs(nn.Module):
    """Zeros and ones of the levels of columns, and of the cells of pairs of columns.

    It has no weights. Columns of the input are zero or not; of each row, the cells of a pair are
    sums of some columns' numbers. Products of zeros, ones and small whole numbers are exact.

    `cells` (2, n_pairs, n_inputs): number that each column of the input stands for, in the first
    and in the second column of each pair. `shapes`: numbers of cells of each pair. `start`: place
    of the first pair's cells; what comes after the last is 0. `value`: size of every entry.
    """

    def __init__(
        self, cells: np.ndarray, shapes: Sequence[tuple[int, int]], start: int, value: float
    ) -> None:
        super().__init__()
        by_input = cells.reshape(-1, cells.shape[-1]).T.copy()
        self.register_buffer("_cells", torch.from_numpy(by_input))
        self._shapes, self._start, self._value = tuple(shapes), start, value

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return inputs of the shape of X (B, n_inputs)."""
        levels = (X != 0).to(X.dtype)
        places = levels @ self.get_buffer("_cells").to(X.dtype)
        parts = [levels[:, : self._start]]
        for pair, (first, second) in enumerate(self._shapes):
            place = places[:, pair] * second + places[:, len(self._shapes) + pair]
            cells = torch.arange(first * second, device=X.device, dtype=X.dtype)
            parts.append((place[:, None] == cells).to(X.dtype))
        used = sum(part.shape[1] for part in parts)
        parts.append(torch.zeros_like(X[:, used:]))
        return torch.cat(parts, dim=1) * self._value


class SmallCNN(nn.Module):
    """Two strided convolutions, average pooling and a linear head.

    Made for private training of small grey or colour images: few parameters (noise
    grows with their number), group normalisation (batch normalisation mixes
    records) and strides early on (per-record gradients are cheap).

    `image_shape`: channels, height and width, in pixels. Rows that come flattened, of shape (B,
    channels * height * width), are given this shape. `channels`: channels of the two
    convolutions; multiples of 4. `activation`: class of the activation after both convolutions.

    Examples
    --------
    >>> import torch
    >>> from skfairdp.engine.modules import SmallCNN
    >>> SmallCNN()(torch.zeros(3, 48 * 48)).shape
    torch.Size([3, 1])
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int] = (1, 48, 48),
        n_outputs: int = 1,
        channels: tuple[int, int] = (16, 32),
        activation: type[nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__()
        self.image_shape = tuple(image_shape)
        first, second = channels
        self.features = nn.Sequential(
            nn.Conv2d(image_shape[0], first, kernel_size=5, stride=3, padding=2),
            nn.GroupNorm(4, first),
            activation(),
            nn.Conv2d(first, second, kernel_size=3, stride=2, padding=1),
            nn.GroupNorm(4, second),
            activation(),
            nn.AvgPool2d(2, ceil_mode=True),
            nn.Flatten(),
        )
        height, width = image_shape[1:]
        for stride in (3, 2, 2):
            height, width = math.ceil(height / stride), math.ceil(width / stride)
        self.head = nn.Linear(second * height * width, n_outputs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (B, n_outputs), of images, flattened or not."""
        scores: torch.Tensor = self.head(self.features(X.reshape(-1, *self.image_shape)))
        return scores


_aten = torch.ops.aten
_OF_ROWS = (nn.Softmax, nn.LogSoftmax)


@dataclass(frozen=True)
class Activation:
    """An elementwise function and its derivative."""

    # Maps the input to the output, a new tensor unless `in_place`
    forward: Callable[[torch.Tensor], torch.Tensor]
    # Maps (upstream gradient, saved tensor) to the gradient of the input
    backward: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    # True when `forward` overwrites its input and `backward` reads the output; False when
    # `backward` reads the input
    in_place: bool


# The derivatives are those that torch's own automatic differentiation calls.
_ACTIVATIONS: dict[type[nn.Module], Callable[[Any], Activation]] = {
    nn.ReLU: lambda _: Activation(
        torch.relu_, lambda g, out: _aten.threshold_backward(g, out, 0), True
    ),
    nn.Tanh: lambda _: Activation(torch.tanh_, _aten.tanh_backward, True),
    nn.Sigmoid: lambda _: Activation(torch.sigmoid_, _aten.sigmoid_backward, True),
    nn.SiLU: lambda _: Activation(nn.functional.silu, _aten.silu_backward, False),
    nn.GELU: lambda layer: Activation(
        partial(nn.functional.gelu, approximate=layer.approximate),
        partial(_aten.gelu_backward, approximate=layer.approximate),
        False,
    ),
    nn.LeakyReLU: lambda layer: Activation(
        lambda z: nn.functional.leaky_relu(z, layer.negative_slope),
        lambda g, z: _aten.leaky_relu_backward(g, z, layer.negative_slope, False),
        False,
    ),
    nn.ELU: lambda layer: Activation(
        lambda z: nn.functional.elu(z, layer.alpha),
        lambda g, z: _aten.elu_backward(g, layer.alpha, 1.0, 1.0, False, z),
        False,
    ),
    nn.Softplus: lambda layer: Activation(
        lambda z: nn.functional.softplus(z, layer.beta, layer.threshold),
        lambda g, z: _aten.softplus_backward(g, z, layer.beta, layer.threshold),
        False,
    ),
}


def activation_for(layer: nn.Module) -> Activation | None:
    """Return the elementwise function that a layer computes, None if not known."""
    made = _ACTIVATIONS.get(type(layer))
    return None if made is None else made(layer)


@dataclass
class LinearStack:
    """A module as a sequence of linear layers with activations in between."""

    linears: list[nn.Linear] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)  # Their names in ``module.named_modules()``
    # Applied to the input of the first linear layer
    before: list[Activation] = field(default_factory=list)
    # ``between[i]`` follows ``linears[i]``; the last one is empty
    between: list[list[Activation]] = field(default_factory=list)
    # Row-wise functions after the last linear layer
    tail: list[nn.Module] = field(default_factory=list)
    # The stack holds only while none of them is active
    dropouts: list[nn.Dropout] = field(default_factory=list)
    flattens: bool = False  # True if the input is flattened first

    @property
    def holds(self) -> bool:
        """False while a dropout layer is active."""
        return not any(layer.training and layer.p > 0 for layer in self.dropouts)


def leaves_of(module: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]] | None:
    """Return the layers that a module applies one after the other, with their names.

    `prefix`: name of `module` in the module that holds it. Result: none if hooks or a replaced
    forward make the order uncertain. A module that is not a known container is a layer itself.
    """
    # torch lists hooks under private names alone; tests/engine/clipping/test_clippers.py sets each.
    hooked = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    if hooked or module._backward_pre_hooks or "forward" in vars(module):
        return None
    children: list[tuple[str, nn.Module]]
    if type(module) is nn.Sequential:
        children = list(module._modules.items())
    elif type(module) is MLP or type(module) is SmallCNN:
        children = [("features", module.features), ("head", module.head)]
    else:
        return [(prefix, module)]
    leaves: list[tuple[str, nn.Module]] = []
    for name, child in children:
        inside = leaves_of(child, f"{prefix}.{name}" if prefix else name)
        if inside is None:
            return None
        leaves += inside
    return leaves


def linear_stack(module: nn.Module) -> LinearStack | None:
    """Return the stack that a module is, None if it is anything else."""
    leaves = leaves_of(module)
    if leaves is None or type(module) is SmallCNN:
        return None
    stack = LinearStack()
    last = max((i for i, (_, leaf) in enumerate(leaves) if type(leaf) is nn.Linear), default=-1)
    for position, (prefix, leaf) in enumerate(leaves):
        if type(leaf) is nn.Linear:
            stack.linears.append(leaf)
            stack.prefixes.append(prefix)
            stack.between.append([])
        elif type(leaf) is nn.Dropout:
            stack.dropouts.append(leaf)
        elif type(leaf) is nn.Flatten and (leaf.start_dim, leaf.end_dim) == (1, -1):
            # Between linear layers of two-dimensional batches it changes nothing.
            stack.flattens = stack.flattens or not (stack.linears or stack.before)
        elif (activation := activation_for(leaf)) is not None:
            if position > last:
                stack.tail.append(leaf)
            elif stack.linears:
                stack.between[-1].append(activation)
            else:
                stack.before.append(activation)
        elif position > last and type(leaf) in _OF_ROWS and getattr(leaf, "dim", None) in (1, -1):
            stack.tail.append(leaf)
        elif type(leaf) is not nn.Identity:
            return None
    owners = [id(p) for x in stack.linears for p in (x.weight, x.bias) if p is not None]
    return stack if stack.linears and len({*owners}) == len(owners) else None


def goes_row_by_row(module: nn.Module) -> bool:
    """Whether all that a module does is known, and is done to each row by itself."""
    while isinstance(module, OfEachRow):
        module = module.module
    return linear_stack(module) is not None
