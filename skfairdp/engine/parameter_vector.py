"""One contiguous vector behind all trainable parameters of a module.

A private step adds noise to one vector and moves the weights by one vector: one operation each,
whatever the number of layers.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Slot:
    """Position of one parameter in the flat vector."""

    name: str  # Name in ``module.named_parameters()``
    slice: slice  # Half-open range of positions, ``slice(start, stop)``
    shape: tuple[int, ...]


@dataclass(frozen=True)
class FlatParameters:
    """The trainable parameters of one module as one vector."""

    # (p,): shares its memory with the parameters: writing to one changes the other
    vector: torch.Tensor
    # The pieces in the order of ``module.named_parameters()``. Frozen parameters are absent; a
    # parameter used in two places appears once
    layout: tuple[Slot, ...]

    def positions(self, prefix: str) -> slice:
        """Range of positions of all parameters of the submodule `prefix`, such as "head"."""
        inside = [slot for slot in self.layout if slot.name.startswith(prefix + ".")]
        if not inside:
            raise KeyError(f"No trainable parameter belongs to the submodule {prefix!r}.")
        start, stop = inside[0].slice.start, inside[-1].slice.stop
        if sum(slot.slice.stop - slot.slice.start for slot in inside) != stop - start:
            raise ValueError(f"The parameters of {prefix!r} do not lie next to each other.")
        return slice(start, stop)


def flatten(module: nn.Module) -> FlatParameters:
    """Move the trainable parameters of a module into one contiguous vector, in place.

    Its parameter objects stay the same, their memory moves. Raises ValueError: if there is
    nothing to train, or the trainable parameters differ in dtype or device, are not float32 or
    float64, or are lazy and not initialised yet.
    """
    named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    _refuse(module, named)
    vector = torch.empty(
        sum(p.numel() for _, p in named), dtype=named[0][1].dtype, device=named[0][1].device
    )
    layout, start = [], 0
    for name, parameter in named:
        slot = Slot(name, slice(start, start + parameter.numel()), tuple(parameter.shape))
        view = vector[slot.slice].view(slot.shape)
        view.copy_(parameter.detach())
        parameter.data = view
        parameter.grad = None
        layout.append(slot)
        start = slot.slice.stop
    return FlatParameters(vector, tuple(layout))


def unflatten(module: nn.Module) -> None:
    """Give every parameter of a module its own memory again, in place.

    A module that was flattened keeps the whole vector alive through each of its parameters.
    """
    copy_parameters(module, module)


def copy_module(module: nn.Module) -> nn.Module:
    """Copy a module with all its state.

    Tensors that it computed from its parameters (as old-style weight normalisation does) are
    detached, because they cannot be copied otherwise.
    """
    for layer in module.modules():
        for name, value in list(vars(layer).items()):
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                setattr(layer, name, value.detach())
    return copy.deepcopy(module)


def copy_parameters(source: nn.Module, target: nn.Module) -> None:
    """Give every parameter of `target`, of the same structure, its namesake's value as its own."""
    values = dict(source.named_parameters())
    for name, parameter in target.named_parameters():
        parameter.data = values[name].detach().clone()
        parameter.grad = None


def _refuse(module: nn.Module, named: list[tuple[str, nn.Parameter]]) -> None:
    kind = type(module).__name__
    if not named:
        raise ValueError(
            f"The module {kind} has no trainable parameter; at least one needs requires_grad=True."
        )
    for name, parameter in named:
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise ValueError(
                f"The parameter {name!r} of {kind} is lazy and has no shape yet; use a layer "
                "whose input size is given."
            )
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"The parameter {name!r} of {kind} is {parameter.dtype}; float32 and float64 "
                "are supported. Convert the module with .float() or .double()."
            )
    first_name, first = named[0]
    for name, parameter in named[1:]:
        if (parameter.dtype, parameter.device) != (first.dtype, first.device):
            raise ValueError(
                f"All trainable parameters need one dtype and one device; {first_name!r} is "
                f"{first.dtype} on {first.device}, {name!r} is {parameter.dtype} on "
                f"{parameter.device}. Convert the module with .to(...)."
            )
