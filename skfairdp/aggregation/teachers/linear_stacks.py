"""Teachers whose layers lie in one tensor a layer, and how they vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skfairdp.aggregation.teachers.ensemble import Teachers
from skfairdp.engine.clipping.linear_stacks import Activation

# Hidden units computed at once while voting: 4 MiB in float32, which stay in the cache.
_UNITS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Layer:
    """One linear layer of all teachers, and the activations that follow it."""

    weight: Tensor  # (n_teachers, n_outputs, n_inputs)
    bias: Tensor | None  # (n_teachers, n_outputs, 1)
    activations: Sequence[Activation]


class BatchedTeachers(Teachers):
    """Teachers whose layers lie in one tensor a layer."""

    def __init__(self, layers: list[Layer], fixed: np.ndarray, n_classes: int) -> None:
        super().__init__(fixed, n_classes)
        self.layers = layers

    def _trained_predictions(self, X: np.ndarray) -> np.ndarray:
        weight = self.layers[0].weight
        widest = max(layer.weight.shape[1] for layer in self.layers)
        chunk = max(16, _UNITS_AT_ONCE // (self.n_teachers * widest))
        answers = np.empty((self.n_teachers, len(X)), dtype=np.int64)
        with torch.inference_mode():
            for start in range(0, len(X), chunk):
                part = np.require(X[start : start + chunk], requirements=["C", "W"])
                output = self._output(torch.as_tensor(part).to(weight).flatten(1))
                answers[:, start : start + chunk] = _classes(output).cpu().numpy()
        return answers

    def _output(self, rows: Tensor) -> Tensor:
        """Logits, shape (n_teachers, n_outputs, n_rows)."""
        first, *others = self.layers
        # All teachers see the same rows: their first layers are one matrix product.
        product = first.weight.flatten(0, 1) @ rows.T
        hidden = product.view(self.n_teachers, -1, len(rows))
        if first.bias is not None:
            hidden += first.bias
        hidden = activated(hidden, first.activations)
        for layer in others:
            if layer.bias is None:
                product = torch.bmm(layer.weight, hidden)
            else:
                product = torch.baddbmm(layer.bias, layer.weight, hidden)
            hidden = activated(product, layer.activations)
        return hidden


def activated(hidden: Tensor, activations: Sequence[Activation]) -> Tensor:
    """Apply elementwise functions one after the other, in place where they can be."""
    for activation in activations:
        hidden = activation.forward(hidden)
    return hidden


def _classes(output: Tensor) -> Tensor:
    """Turn logits of shape (n_teachers, n_outputs, n_rows) into class codes."""
    return (output[:, 0] > 0).long() if output.shape[1] == 1 else output.argmax(dim=1)
