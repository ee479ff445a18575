"""Optimizers that take gradients as one vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from skfairdp.engine.parameter_vector import FlatParameters

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
        self.optimizer.step()
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
        self._steps = 0

    def step(self, gradient: Tensor, options: Mapping[str, Any]) -> None:
        gradient = gradient.to(self._vector.dtype)
        beta1, beta2 = options["betas"]
        self._steps += 1
        self._mean.lerp_(gradient, 1 - beta1)
        self._square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        size = options["lr"] / (1 - beta1**self._steps)
        root = (1 - beta2**self._steps) ** 0.5
        denominator = self._square.sqrt().div_(root).add_(options["eps"])
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
