"""Perceptrons with weights from a generator of their own, and what is computed with them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from skfairdp.parameters import COUNT


class ListOfWidths:
    """Allows sequences of positive integers."""

    def accepts(self, value: Any) -> bool:
        """Whether `value` lists widths of hidden layers."""
        return (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and all(COUNT.accepts(width) for width in value)
        )

    def describe(self) -> str:
        """What is allowed."""
        return "a sequence of integers >= 1"


def perceptron(
    n_inputs: int, hidden_sizes: Sequence[int], n_outputs: int, generator: torch.Generator
) -> nn.Sequential:
    """Build a perceptron with ReLU after every hidden layer.

    Weights and biases are uniform within ±1/√fan-in, torch's own default, but drawn from
    `generator`: torch's global state is neither read nor moved.

    `hidden_sizes`: widths between them; empty for a linear map. Result: from (n, n_inputs) to (n,
    n_outputs).
    """
    widths = [n_inputs, *hidden_sizes, n_outputs]
    layers: list[nn.Module] = []
    for width, following in pairwise(widths):
        layer = nn.utils.skip_init(nn.Linear, width, following)
        for weights in (layer.weight, layer.bias):
            nn.init.uniform_(weights, -(width**-0.5), width**-0.5, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class GaussianEncoder(nn.Module):
    """Mean and logarithm of the variance of a normal distribution with independent components.

    `network`: its output holds the means and after them as many log-variances.
    """

    # Standard deviations stay between e^-5 and e^5: no overflow, and none is frozen at zero.
    LIMIT = 10.0

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and log-variances.

        `inputs` (n, n_inputs): rows. Result (n, n_components).
        """
        mean, log_variance = self.network(inputs).chunk(2, dim=1)
        return mean, log_variance.clamp(-self.LIMIT, self.LIMIT)

    @staticmethod
    def draw(mean: Tensor, log_variance: Tensor, generator: torch.Generator) -> Tensor:
        """Draw from the distribution; gradients reach both of its parameters.

        The standard deviation is the *square root* of the variance, exp(log_variance / 2).

        `mean`, `log_variance` (n, n_components): what `forward` returns. `generator`: source of
        the standard normal draws. Result (n, n_components).
        """
        standard = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
        return mean + torch.exp(log_variance / 2) * standard

    @staticmethod
    def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
        """Kullback-Leibler divergence from the standard normal prior.

        `mean`, `log_variance` (n, n_components): what `forward` returns. Result (n,): KL(N(mean,
        variance) ‖ N(0, I)) of each row, in nats.
        """
        terms = mean.square() + log_variance.exp() - 1 - log_variance
        return 0.5 * terms.sum(1)


class ReversedGradient(torch.autograd.Function):
    """Identity whose gradient is multiplied by minus a weight (Ganin and Lempitsky, 2015)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: float) -> Tensor:
        """Hand the inputs on."""
        ctx.weight = weight
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Turn the gradient round."""
        return -ctx.weight * gradients[0], None


def beside(left: Tensor, codes: Tensor, n_values: int) -> Tensor:
    """Columns with indicator columns of codes to their right.

    `left` (n, d): columns. `codes` (n,): from 0 to `n_values` - 1. Result (n, d + n_values).
    """
    return torch.cat([left, functional.one_hot(codes, n_values).to(torch.float32)], dim=1)
