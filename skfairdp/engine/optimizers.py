"""Optimizers that take gradients as one vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from skfairdp.engine.flat import FlatParameters

__all__ = ["ELEMENTWISE", "FlatOptimizer", "flat_optimizer"]

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

    def step(self, gradient: Tensor) -> None:
        """Apply one update.

        Parameters
        ----------
        gradient : Tensor, shape (p,)
            A released gradient; cast to the parameters' dtype.
        """
        if self._plain:
            # torch's own step costs ten times the update of a single vector.
            # A cast in front is cheaper than an update in two dtypes.
            vector = self._parameters[0].data
            vector.sub_(gradient.to(vector.dtype), alpha=self.optimizer.param_groups[0]["lr"])
            return
        for parameter, where in zip(self._parameters, self._where, strict=True):
            parameter.grad = gradient[where].view_as(parameter).to(parameter.dtype)
        self.optimizer.step()
        for parameter in self._parameters:
            parameter.grad = None

    def set_lr(self, lr: float) -> None:
        """Change the learning rate of all groups."""
        for group in self.optimizer.param_groups:
            group["lr"] = lr


def flat_optimizer(
    cls: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    parameters: Mapping[str, Tensor],
    flat: FlatParameters,
) -> FlatOptimizer:
    """Build an optimizer on flat parameters.

    Parameters
    ----------
    cls : type
        A torch optimizer.
    args, kwargs : sequence, mapping
        Its arguments; the first of `args`, if any, holds parameters or groups of
        them.
    parameters : mapping of str to Tensor
        The module's trainable parameters.
    flat : FlatParameters
        The same as one vector.

    Returns
    -------
    FlatOptimizer
        On the vector itself where the optimizer treats every coordinate alike, else
        on the parameters, which share its memory.
    """
    several = len(args) == 1 and _has_groups(args[0])
    if cls in ELEMENTWISE and not several:
        vector = nn.Parameter(flat.vector, requires_grad=True)
        return FlatOptimizer(cls([vector], **kwargs), [vector], [slice(None)])
    return FlatOptimizer(
        cls(*args, **kwargs),
        [parameters[slot.name] for slot in flat.layout],
        [slot.slice for slot in flat.layout],
    )


def _is_plain_sgd(optimizer: torch.optim.Optimizer) -> bool:
    """Tell whether a step is nothing but ``w -= lr * gradient``."""
    if type(optimizer) is not torch.optim.SGD:
        return False
    options = optimizer.param_groups[0]
    extras = ("momentum", "weight_decay", "nesterov", "maximize")
    return isinstance(options["lr"], float) and not any(options[name] for name in extras)


def _has_groups(parameters: Any) -> bool:
    groups = list(parameters)
    return len(groups) > 1 and isinstance(groups[0], dict)
