"""Recognise modules that are plain stacks of linear layers and activations.

Only structures with a known forward pass count as a stack: exactly ``nn.Sequential`` (nested at any
depth) and exactly :class:`~skfairdp.engine.modules.MLP`, without hooks. A module with its own
forward may do anything with its linear layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from skfairdp.engine.modules import MLP, OfEachRow, SmallCNN

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
    # torch lists hooks under private names alone; tests/engine/test_clipping.py sets each.
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
