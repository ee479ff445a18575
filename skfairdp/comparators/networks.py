"""Perceptrons with weights from a generator of their own, and what is computed with them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["GaussianEncoder", "ReversedGradient", "beside", "one_hot", "perceptron"]


def perceptron(
    n_inputs: int, hidden_sizes: Sequence[int], n_outputs: int, generator: torch.Generator
) -> nn.Sequential:
    """Build a perceptron with ReLU after every hidden layer.

    Weights and biases are uniform within ±1/√fan-in, torch's own default, but drawn from
    `generator`: torch's global state is neither read nor moved.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Widths of both ends.
    hidden_sizes : sequence of int
        Widths between them; empty for a linear map.
    generator : torch.Generator
        Source of the first weights.

    Returns
    -------
    torch.nn.Sequential
        From (n, n_inputs) to (n, n_outputs).
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

    Parameters
    ----------
    network : torch.nn.Module
        Its output holds the means and after them as many log-variances.
    """

    # Standard deviations stay between e^-5 and e^5: no overflow, and none is frozen at zero.
    LIMIT = 10.0

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and log-variances.

        Parameters
        ----------
        inputs : Tensor of shape (n, n_inputs)
            Rows.

        Returns
        -------
        tuple of two Tensors of shape (n, n_components)
        """
        mean, log_variance = self.network(inputs).chunk(2, dim=1)
        return mean, log_variance.clamp(-self.LIMIT, self.LIMIT)

    @staticmethod
    def draw(mean: Tensor, log_variance: Tensor, generator: torch.Generator) -> Tensor:
        """Draw from the distribution; gradients reach both of its parameters.

        The standard deviation is the *square root* of the variance, exp(log_variance / 2).

        Parameters
        ----------
        mean, log_variance : Tensor of shape (n, n_components)
            What `forward` returns.
        generator : torch.Generator
            Source of the standard normal draws.

        Returns
        -------
        Tensor of shape (n, n_components)
        """
        standard = torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
        return mean + torch.exp(log_variance / 2) * standard

    @staticmethod
    def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
        """Kullback-Leibler divergence from the standard normal prior.

        Parameters
        ----------
        mean, log_variance : Tensor of shape (n, n_components)
            What `forward` returns.

        Returns
        -------
        Tensor of shape (n,)
            KL(N(mean, variance) ‖ N(0, I)) of each row, in nats.
        """
        terms = mean.square() + log_variance.exp() - 1 - log_variance
        return 0.5 * terms.sum(1)


class ReversedGradient(torch.autograd.Function):
    """Identity whose gradient is multiplied by minus a weight (Ganin and Lempitsky, 2015)."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: float) -> Tensor:
        """Hand the inputs on.

        Parameters
        ----------
        ctx : object
            Remembers the weight.
        inputs : Tensor
            Anything.
        weight : float
            Factor of the reversed gradient.

        Returns
        -------
        Tensor
        """
        ctx.weight = weight
        return inputs.view_as(inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Turn the gradient round.

        Parameters
        ----------
        ctx : object
            Remembers the weight.
        *gradients : Tensor
            Gradient of what comes after.

        Returns
        -------
        tuple of Tensor and None
        """
        return -ctx.weight * gradients[0], None


def one_hot(codes: Tensor, n_values: int) -> Tensor:
    """Codes as indicator columns.

    Parameters
    ----------
    codes : Tensor of int64, shape (n,)
        From 0 to `n_values` - 1.
    n_values : int
        Number of columns.

    Returns
    -------
    Tensor of float32, shape (n, n_values)
    """
    return functional.one_hot(codes, n_values).to(torch.float32)


def beside(left: Tensor, codes: Tensor, n_values: int) -> Tensor:
    """Columns with indicator columns of codes to their right.

    Parameters
    ----------
    left : Tensor of shape (n, d)
        Columns.
    codes : Tensor of int64, shape (n,)
        From 0 to `n_values` - 1.
    n_values : int
        Number of indicator columns.

    Returns
    -------
    Tensor of shape (n, d + n_values)
    """
    return torch.cat([left, one_hot(codes, n_values)], dim=1)
