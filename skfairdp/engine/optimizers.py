"""Parameters of a module as one vector, and optimizers that take the gradient of it.

A private step adds noise to one vector and moves the weights by one vector: one operation each,
whatever the number of layers.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

# Optimisers that treat every coordinate by itself: one flat vector gives the same
# updates as many tensors, in a fraction of the time.
ELEMENTWISE = {
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.NAdam,
    torch.optim.RMSprop,
    torch.optim.Adagrad,
    torch.optim.Adamax,
    torch.optim.RAdam,
}


class FlatOptimizer:
    """An optimizer that is handed gradients as one vector."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, parameters: list[Tensor], where: list[slice]
    ) -> None:
        self.optimizer = optimizer
        self._parameters = parameters
        self._where = where
        self._plain = len(parameters) == 1 and _is_plain_sgd(optimizer)
        self._adam = _Adam(parameters[0].data) if _is_plain_adam(parameters, optimizer) else None
        own = self._plain or self._adam is not None
        self._update = optimizer.step if own else step_of(optimizer)

    @property
    def size(self) -> int:
        return sum(parameter.numel() for parameter in self._parameters)

    def step(self, gradient: Tensor) -> None:
        """Apply one update by a released gradient, shape (p,)."""
        if self._plain:
            # torch's own step costs ten times the update of a single vector.
            # A cast in front is cheaper than an update in two dtypes.
            vector = self._parameters[0].data
            vector.sub_(gradient.to(vector.dtype), alpha=self.optimizer.param_groups[0]["lr"])
            return
        if self._adam is not None:
            self._adam.step(gradient, self.optimizer.param_groups[0])
            return
        for parameter, where in zip(self._parameters, self._where, strict=True):
            parameter.grad = gradient[where].view_as(parameter).to(parameter.dtype)
        self._update()
        for parameter in self._parameters:
            parameter.grad = None

    def set_lr(self, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr


class _Adam:
    """Adam on one vector, moved in place: the arithmetic of torch's own.

    What torch does around the update of a vector costs three times the update.
    """

    def __init__(self, vector: Tensor) -> None:
        self._vector = vector
        self._mean, self._square = torch.zeros_like(vector), torch.zeros_like(vector)
        self._root = torch.empty_like(vector)  # overwritten by each step
        self._steps = 0

    def step(self, gradient: Tensor, options: Mapping[str, Any]) -> None:
        gradient = gradient.to(self._vector.dtype)
        beta1, beta2 = options["betas"]
        self._steps += 1
        self._mean.lerp_(gradient, 1 - beta1)
        self._square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        size = options["lr"] / (1 - beta1**self._steps)
        root = (1 - beta2**self._steps) ** 0.5
        denominator = torch.sqrt(self._square, out=self._root).div_(root).add_(options["eps"])
        if isinstance(size, Tensor):
            self._vector.sub_(self._mean.div(denominator).mul_(size))
        else:
            self._vector.addcdiv_(self._mean, denominator, value=-size)


class ManyOptimizers:
    """Plain gradient descent or Adam of many models, each with its own learning rate.

    `vectors` (M, p): weights of the models, moved in place. `optimizers`: of each model alone.
    Raises ValueError: they are not of one kind, or of another one.
    """

    def __init__(self, vectors: Tensor, optimizers: Sequence[FlatOptimizer]) -> None:
        options = [optimizer.optimizer.param_groups[0] for optimizer in optimizers]
        kinds = {
            (o._plain, o._adam is not None, own.get("betas"), own.get("eps"))
            for o, own in zip(optimizers, options, strict=True)
        }
        if len(kinds) > 1 or not (optimizers[0]._plain or optimizers[0]._adam):
            raise ValueError(
                "Models are trained together by plain SGD, or by plain Adam with the same betas "
                "and eps; fit those with another optimizer one by one."
            )
        self._vectors, self._options = vectors, options[0]
        self._adam = None if optimizers[0]._plain else _Adam(vectors)

    def step(self, gradients: Tensor, rates: Tensor) -> None:
        """Apply one update; `gradients` (M, p), `rates` (M, 1): learning rates."""
        if self._adam is None:
            self._vectors.sub_(gradients * rates)
        else:
            self._adam.step(gradients, {**self._options, "lr": rates.to(self._vectors.dtype)})


def make_optimizer(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Build an optimizer without importing torch's compiler, which takes longer than most fits.

    torch's constructors call one method through a wrapper that imports it.
    """
    add = getattr(cls, "add_param_group", None)
    if add is not torch.optim.Optimizer.add_param_group or not hasattr(add, "__wrapped__"):
        return cls(*args, **kwargs)
    optimizer = cls.__new__(cls)
    optimizer.add_param_group = partial(add.__wrapped__, optimizer)
    optimizer.__init__(*args, **kwargs)
    del optimizer.add_param_group
    return optimizer


def step_of(optimizer: torch.optim.Optimizer) -> Callable[[], Any]:
    """Return the update of an optimizer, without importing torch's compiler either.

    torch wraps it into functions that import the compiler and call hooks, of which there are none
    on an optimizer that was just built. Subclasses may have wrappers of their own, which stay.
    """
    kind = type(optimizer)
    if kind not in ELEMENTWISE or optimizer.defaults.get("differentiable"):
        return optimizer.step
    return torch.no_grad()(partial(inspect.unwrap(kind.step), optimizer))


def flat_optimizer(
    cls: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    parameters: Mapping[str, Tensor],
    flat: FlatParameters,
) -> FlatOptimizer:
    """Build an optimizer on flat parameters.

    `args`: the first, if any, holds parameters or groups of them. Result: on the vector itself
    where the optimizer treats every coordinate alike, else on parameters that share its memory.
    """
    listed = list(args[0]) if len(args) == 1 else []
    several = len(listed) > 1 and isinstance(listed[0], dict)
    if cls in ELEMENTWISE and not several:
        vector = nn.Parameter(flat.vector, requires_grad=True)
        return FlatOptimizer(make_optimizer(cls, [vector], **kwargs), [vector], [slice(None)])
    return FlatOptimizer(
        make_optimizer(cls, *args, **kwargs),
        [parameters[slot.name] for slot in flat.layout],
        [slot.slice for slot in flat.layout],
    )


def _is_plain_sgd(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether a step is nothing but ``w -= lr * gradient``."""
    if type(optimizer) is not torch.optim.SGD:
        return False
    options = optimizer.param_groups[0]
    extras = ("momentum", "weight_decay", "nesterov", "maximize")
    return isinstance(options["lr"], float) and not any(options[name] for name in extras)


def _is_plain_adam(parameters: list[Tensor], optimizer: torch.optim.Optimizer) -> bool:
    """Return whether a step is the textbook's, on one vector."""
    if type(optimizer) is not torch.optim.Adam or len(parameters) > 1:
        return False
    options = optimizer.param_groups[0]
    numbers = (options["lr"], options["eps"], *options["betas"])
    extras = ("weight_decay", "amsgrad", "maximize", "capturable", "differentiable", "fused")
    return all(isinstance(n, float) for n in numbers) and not any(options[name] for name in extras)


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
            raise ValueError(
                f"The parameters of the submodule {prefix!r} are not registered one after the "
                "other: define its layers together in the module."
            )
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
