"""Inputs and upstream gradients of the layers of a linear stack, by exact products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from skfairdp.engine.clipping.linear_stacks import LinearStack
from skfairdp.engine.exact_products import parts_of, product
from skfairdp.engine.objectives import Objective, check_losses


@dataclass(frozen=True)
class StackPass:
    """A pass forth and back through a stack, as far down as the first trained layer."""

    stack: LinearStack
    objective: Callable[..., torch.Tensor]  # Per-record losses (B,) of outputs and targets
    dtype: torch.dtype  # What the module computes in
    first: int  # Number of the first trained layer

    def sides(
        self, X: torch.Tensor, targets: tuple[torch.Tensor, ...]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
        """Return inputs and upstream gradients of the trained layers, and the module's output."""
        inputs, saved, output = self._forward(X)
        deltas = self._backward(self._output_gradient(output, targets), saved)
        for layer in self.stack.tail:
            output = layer(output)
        return inputs, deltas, output

    def _forward(
        self, X: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[list[torch.Tensor]], torch.Tensor]:
        """Return the inputs of the trained layers, what backward needs, the output."""
        stack = self.stack
        value = X.flatten(1) if stack.flattens else X
        if stack.before:
            value = value.clone()
            for activation in stack.before:
                value = activation.forward(value)
        inputs, saved = [], []
        for index, layer in enumerate(stack.linears):
            rows = parts_of(value, 1)
            if index >= self.first:
                inputs.append(_whole(rows))
            exact = product(rows, [part.t() for part in parts_of(layer.weight, 1)])
            value = (exact if layer.bias is None else exact.add_(layer.bias)).to(self.dtype)
            kept = []
            for position, activation in enumerate(stack.between[index]):
                before = value
                if activation.in_place and position:
                    # The activation before this one may have saved its output.
                    value = value.clone()
                value = activation.forward(value)
                kept.append(value if activation.in_place else before)
            saved.append(kept)
        return inputs, saved, value

    def _output_gradient(
        self, output: torch.Tensor, targets: tuple[torch.Tensor, ...]
    ) -> torch.Tensor:
        """Return d loss_i / d z_i at the last linear layer, shape (B, K)."""
        if isinstance(self.objective, Objective) and not self.stack.tail:
            gradient = self.objective.gradient(output, *targets)
            if gradient is not None:
                return gradient
        with torch.inference_mode(False), torch.enable_grad():
            leaf = output.clone().requires_grad_()
            value = leaf
            for layer in self.stack.tail:
                value = layer(value)
            losses = self.objective(value, *(target.clone() for target in targets))
            check_losses(losses, output.shape[:1])
            return torch.autograd.grad(losses.sum(), leaf)[0]

    def _backward(self, delta: torch.Tensor, saved: list[list[torch.Tensor]]) -> list[torch.Tensor]:
        """Return the upstream gradients of the trained layers, first layer first."""
        deltas = []
        for index in range(len(self.stack.linears) - 1, self.first - 1, -1):
            if index == self.first:
                deltas.append(delta.double())
                break
            rows = parts_of(delta, 1)
            deltas.append(_whole(rows))
            delta = product(rows, parts_of(self.stack.linears[index].weight, 0)).to(self.dtype)
            steps = zip(self.stack.between[index - 1], saved[index - 1], strict=True)
            for activation, kept in reversed(list(steps)):
                delta = activation.backward(delta, kept)
        return deltas[::-1]


def _whole(parts: list[torch.Tensor]) -> torch.Tensor:
    """Return the matrix that parts sum to, a float64 number each."""
    return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)
