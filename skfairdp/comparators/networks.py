"""Networks of the comparators: seeded perceptrons, normal encoders, and their losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def perceptron(
    n_inputs: int, hidden_sizes: Sequence[int], n_outputs: int, generator: torch.Generator
) -> nn.Sequential:
    """Build a perceptron with ReLU after every hidden layer.

    Weights and biases are uniform within ±1/√fan-in, torch's own default, but drawn from
    `generator`: torch's global state is neither read nor moved.
    """
    layers: list[nn.Module] = []
    for width, following in pairwise([n_inputs, *hidden_sizes, n_outputs]):
        layer = nn.utils.skip_init(nn.Linear, width, following)
        for weights in (layer.weight, layer.bias):
            nn.init.uniform_(weights, -(width**-0.5), width**-0.5, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class GaussianEncoder(nn.Module):
    """Means and log-variances of independent components: two halves of a network's output."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.network(inputs).chunk(2, dim=1)
        # Standard deviations stay between e^-5 and e^5: no overflow, and none is frozen at zero.
        return mean, log_variance.clamp(-10.0, 10.0)

    @staticmethod
    def draw(mean: Tensor, log_variance: Tensor, generator: torch.Generator) -> Tensor:
        """Draw with gradients; the deviation is the *square root* of the variance."""
        standard = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
        return mean + torch.exp(log_variance / 2) * standard

    @staticmethod
    def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
        """KL(N(mean, variance) ‖ N(0, I)) of each row, in nats."""
        return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)


class ReversedGradient(torch.autograd.Function):
    """Identity whose gradient is multiplied by minus a weight (Ganin and Lempitsky, 2015)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: float) -> Tensor:
        ctx.weight = weight
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.weight * gradients[0], None


def beside(left: Tensor, codes: Tensor, n_values: int) -> Tensor:
    """Columns with indicator columns of codes to their right."""
    return torch.cat([left, functional.one_hot(codes, n_values).to(torch.float32)], dim=1)


def negative_log_likelihood(x: Tensor, decoded: Tensor, binary: Tensor) -> Tensor:
    """Loss −log p(x | decoded) of each row, in nats.

    Columns of zeros and ones (`binary`) are Bernoulli with `decoded` as logits, others normal
    around `decoded` with variance 1 (they are standardised).
    """
    coins = functional.binary_cross_entropy_with_logits(
        decoded[:, binary], x[:, binary], reduction="none"
    )
    distances = (decoded[:, ~binary] - x[:, ~binary]).square() + math.log(2 * math.pi)
    return coins.sum(1) + 0.5 * distances.sum(1)


@dataclass(frozen=True)
class Batch:
    """Training rows, or a batch of them."""

    x: Tensor  # (n, n_features): features; columns with other values than 0 and 1 are standardised
    y: Tensor  # (n,): label codes; zeros for a method without labels
    # (n, n_attributes): codes of the sensitive attributes; one column of groups for all but FFVAE
    s: Tensor

    def __len__(self) -> int:
        return len(self.x)

    @property
    def groups(self) -> Tensor:
        return self.s[:, 0]

    def take(self, index: Tensor) -> Batch:
        return Batch(*(part.index_select(0, index) for part in (self.x, self.y, self.s)))


@dataclass(frozen=True)
class Widths:
    """Widths of the inputs and outputs of the networks."""

    n_features: int
    n_components: int
    n_classes: int
    n_values: tuple[int, ...]  # of each sensitive attribute
    hidden: tuple[int, ...]
    binary: Tensor  # (n_features,): columns that hold only 0 and 1

    @property
    def n_groups(self) -> int:
        return self.n_values[0]


class Losses(nn.Module):
    """The networks of one method, made in `_build`, and the losses that train them.

    Where a method is adversarial, ``rival`` works against the encoder: it takes `rival_steps` steps
    by `rival_loss` on every batch before all other networks take one by `loss`.
    """

    rival_steps: int = 0
    encoder: nn.Module
    rival: nn.Module

    def __init__(self, model: Any, sizes: Widths, rows: Batch, generator: torch.Generator) -> None:
        super().__init__()
        self.model, self.sizes, self._generator = model, sizes, generator
        self._build(rows)

    def _build(self, rows: Batch) -> None:
        raise NotImplementedError

    def _net(self, n_inputs: int, n_outputs: int) -> nn.Sequential:
        return perceptron(n_inputs, self.sizes.hidden, n_outputs, self._generator)

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def rival_loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        raise NotImplementedError
