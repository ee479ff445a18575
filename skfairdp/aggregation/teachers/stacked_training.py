"""Teachers that are stacks of linear layers, all trained in one pass.

A step does for all teachers at once what each would do alone: its own minibatch
shard, one batched matrix product a layer and direction, one elementwise update. Every
shape is the same whatever the shards hold, so that a slice of a product, and with it a
teacher, depends on its own operands alone, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.aggregation.shards import batches, teacher_generator
from skfairdp.aggregation.teachers.ensemble import Lessons, Teachers
from skfairdp.engine.modules import Activation, LinearStack, linear_stack
from skfairdp.engine.nets import PreparedNet, module_dtype
from skfairdp.engine.objectives import BinaryObjective, Objective, objective_for
from skfairdp.engine.optimizers import ELEMENTWISE, make_optimizer, step_of
from skfairdp.engine.randomness import SeededDraws

# Hidden units computed at once while voting: 4 MiB in float32, which stay in the cache.
_UNITS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Layer:
    """One linear layer of all teachers, and the activations that follow it."""

    weight: Tensor  # (n_teachers, n_outputs, n_inputs)
    bias: Tensor | None  # (n_teachers, n_outputs, 1)
    activations: Sequence[Activation]


@dataclass(eq=False, repr=False)
class BatchedTeachers(Teachers):
    """Teachers with equal nets, stored as one tensor per layer."""

    layers: list[Layer]

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


def can_be_batched(prepared: PreparedNet, row_shape: tuple[int, ...]) -> bool:
    """Return whether teachers made like this one can be trained in one pass.

    True for stacks of linear layers with elementwise activations, a loss whose derivative is
    known and an optimizer that treats every weight by itself.
    """
    stack = linear_stack(prepared.module)
    objective = objective_for(prepared.criterion)
    return (
        stack is not None
        and not (stack.before or stack.tail or stack.dropouts)
        and (stack.flattens or len(row_shape) == 1)
        and all(len(found) <= 1 for found in stack.between)
        and all(p.requires_grad for p in prepared.module.parameters())
        and prepared.net.optimizer in ELEMENTWISE
        and "optimizer__param_groups" not in prepared.net.get_params(deep=False)
        and _derivative_is_known(objective, stack.linears[-1].out_features)
    )


def train_batched(prepared: PreparedNet, lessons: Lessons) -> BatchedTeachers:
    """Train all teachers in one pass, to the pattern of `prepared`.

    Teachers with a fixed answer keep their place in every product, on empty rows. The seed and
    its number determine a teacher's initial weights and minibatches.
    """
    X, rows, batch_size = lessons.X, lessons.rows, lessons.batch_size
    stack = linear_stack(prepared.module)
    assert stack is not None  # can_be_batched
    device, dtype = prepared.flat.vector.device, module_dtype(prepared.module)
    flat_X = X.reshape(len(X), -1)
    features = torch.zeros((len(X) + 1, flat_X.shape[1]), dtype=dtype)
    features[:-1] = torch.from_numpy(np.require(flat_X, requirements=["C", "W"]))
    features = features.to(device)
    objective = objective_for(prepared.criterion)
    binary = isinstance(objective, BinaryObjective)
    target = torch.zeros(len(X) + 1, dtype=dtype if binary else torch.int64)
    target[:-1] = torch.from_numpy(lessons.y_codes)
    target = target.to(device)

    generators = [teacher_generator(lessons.seed, index) for index in range(len(rows))]
    vector = torch.empty(len(rows) * prepared.flat.vector.numel(), dtype=dtype, device=device)
    gradient = torch.empty_like(vector)
    layers, slopes = _split(vector, stack, len(rows)), _split(gradient, stack, len(rows))
    _initialise(layers, stack, generators)
    optimizer = _optimizer(prepared, vector, gradient)
    update = step_of(optimizer)
    rates = prepared.learning_rates(lessons.n_steps, max(1, lessons.n_steps // 10))
    # The last row, of zeros, is used for shards without records.
    shards = [own if len(own) else np.array([len(X)]) for own in rows]
    table = batches(shards, generators, lessons.n_steps, batch_size)
    with torch.no_grad():
        for rate, picked in zip(rates, table, strict=True):
            index = torch.from_numpy(picked).to(device)
            batch = features.index_select(0, index).view(len(rows), batch_size, -1)
            _backpropagate(batch, target.index_select(0, index), layers, slopes, objective)
            for group in optimizer.param_groups:
                group["lr"] = rate
            update()
            lessons.progress.advance()
    return BatchedTeachers(lessons.fixed, lessons.n_classes, layers)


def _derivative_is_known(objective: Objective, n_outputs: int) -> bool:
    binary = isinstance(objective, BinaryObjective)
    target = torch.zeros(1, dtype=torch.float32 if binary else torch.int64)
    known = not (binary and n_outputs != 1)
    return known and objective.gradient(torch.zeros((1, n_outputs)), target) is not None


def _split(vector: Tensor, stack: LinearStack, n_teachers: int) -> list[Layer]:
    """Cut one vector into the layers of all teachers."""
    layers, start = [], 0

    def take(*shape: int) -> Tensor:
        nonlocal start
        stop = start + math.prod(shape)
        piece = vector[start:stop].view(shape)
        start = stop
        return piece

    for linear, activations in zip(stack.linears, stack.between, strict=True):
        weight = take(n_teachers, linear.out_features, linear.in_features)
        bias = None if linear.bias is None else take(n_teachers, linear.out_features, 1)
        layers.append(Layer(weight, bias, activations))
    return layers


def _initialise(
    layers: list[Layer], stack: LinearStack, generators: list[np.random.Generator]
) -> None:
    """Draw each teacher's weights as the constructor of its layers does."""
    for index, generator in enumerate(generators):
        with SeededDraws(int(generator.integers(2**63))), torch.no_grad():
            for layer, linear in zip(layers, stack.linears, strict=True):
                fresh = nn.Linear(
                    linear.in_features, linear.out_features, bias=layer.bias is not None
                )
                layer.weight[index] = fresh.weight
                if layer.bias is not None:
                    layer.bias[index, :, 0] = fresh.bias


def _optimizer(prepared: PreparedNet, vector: Tensor, gradient: Tensor) -> torch.optim.Optimizer:
    parameter = nn.Parameter(vector)
    parameter.grad = gradient
    _, kwargs = prepared.net.get_params_for_optimizer("optimizer", [])
    settings: dict[str, Any] = {"lr": prepared.learning_rate, **kwargs}
    if prepared.net.optimizer in (torch.optim.Adam, torch.optim.AdamW) and not (
        {"foreach", "fused", "differentiable"} & settings.keys()
    ):
        settings["fused"] = True  # one pass over the weights
    return make_optimizer(prepared.net.optimizer, [parameter], **settings)


def _backpropagate(
    batch: Tensor, target: Tensor, layers: list[Layer], slopes: list[Layer], objective: Objective
) -> None:
    """Write the gradient of every teacher's mean loss into `slopes`."""
    inputs, saved, hidden = [], [], batch
    for layer in layers:
        inputs.append(hidden)
        weight = layer.weight.transpose(1, 2)
        if layer.bias is None:
            product = torch.bmm(hidden, weight)
        else:
            product = torch.baddbmm(layer.bias.transpose(1, 2), hidden, weight)
        hidden = activated(product, layer.activations)
        # What the derivative is computed from: the output where it overwrote the input.
        saved.append(product)
    _, batch_size, n_outputs = hidden.shape
    slope = objective.gradient(hidden.reshape(-1, n_outputs), target)
    assert slope is not None  # can_be_batched
    delta = slope.view(hidden.shape).div_(batch_size)
    for position in range(len(layers) - 1, -1, -1):
        into = slopes[position]
        torch.bmm(delta.transpose(1, 2), inputs[position], out=into.weight)
        if into.bias is not None:
            torch.sum(delta, dim=1, out=into.bias.squeeze(2))
        if position:
            delta = torch.bmm(delta, layers[position].weight)
            for activation in layers[position - 1].activations:
                delta = activation.backward(delta, saved[position - 1])
