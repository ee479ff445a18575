"""Encoder and decoders of a fair representation: for tables and for small images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from skorch import NeuralNet
from torch import Tensor, nn

from skfairdp.engine.modules import MLP
from skfairdp.engine.nets import default_net

_convolution = partial(nn.Conv2d, kernel_size=5, stride=1, padding=2)


class RepresentationModule(nn.Module):
    """Three perceptrons: x to z, z to u, and (z, s) to x.

    The defaults are the networks of the paper for tables (appendix A.2.1). A module of your own
    for the `net` of a `PrivateFairEncoder` has the same three methods and takes the first four
    arguments: `n_outputs` are classes, and `n_groups` is 0 for a side decoder that sees z alone.
    """

    def __init__(
        self,
        n_features: int,
        n_components: int = 2,
        n_outputs: int = 2,
        n_groups: int = 0,
        hidden_sizes: Sequence[int] = (100,),
        utility_sizes: Sequence[int] = (100, 100),
        side_sizes: Sequence[int] = (100,),
        activation: type[nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__()
        self.encoder = MLP(n_features, n_components, hidden_sizes, activation)
        self.utility = MLP(n_components, n_outputs, utility_sizes, activation)
        self.side = MLP(n_components + n_groups, n_features, side_sizes, activation)

    def encode(self, x: Tensor) -> Tensor:
        """Map rows to representations before truncation."""
        return self.encoder(x)

    def predict_utility(self, z: Tensor) -> Tensor:
        """Map released representations to a logit of each class."""
        return self.utility(z)

    def reconstruct(self, z: Tensor, s: Tensor) -> Tensor:
        """Map released representations and one-hot groups to the parameters of each column."""
        return self.side(torch.cat([z, s], dim=1))


class ConvRepresentationModule(nn.Module):
    """Convolutions from an image to a representation of the same shape, and back.

    The networks of the paper for Colored-MNIST (table 3), with group normalisation in place of
    batch normalisation, which mixes records.

    `n_features`, `n_components`: values of an image. `n_groups`: each is one more constant
    channel. `channels`: of the encoder, and of the side decoder's two entrances; a multiple of 5.
    """

    def __init__(
        self,
        n_features: int,
        n_components: int,
        n_outputs: int = 10,
        n_groups: int = 0,
        image_shape: tuple[int, int, int] = (3, 10, 10),
        channels: int = 10,
        utility_sizes: Sequence[int] = (100, 100),
    ) -> None:
        super().__init__()
        size = math.prod(image_shape)
        for name, value in (("n_features", n_features), ("n_components", n_components)):
            if value != size:
                raise ValueError(
                    f"{name}={value} does not fit image_shape={tuple(image_shape)}, whose images "
                    f"and representations have {size} values each."
                )
        self.image_shape = tuple(image_shape)
        depth = image_shape[0]
        self.encoder = nn.Sequential(
            _convolution(depth, channels),
            nn.ReLU(),
            _convolution(channels, channels),
            nn.ReLU(),
            _convolution(channels, depth),
        )
        self.utility = MLP(size, n_outputs, utility_sizes, nn.ReLU)
        self.side_z = nn.Sequential(*_normalised(depth, channels))
        self.side_s = nn.Sequential(*_normalised(n_groups, channels)) if n_groups else None
        self.side = nn.Sequential(
            *_normalised(2 * channels if n_groups else channels, 10 * channels),
            *_normalised(10 * channels, 5 * channels, nn.ReLU6),
            _convolution(5 * channels, depth),
        )

    def encode(self, x: Tensor) -> Tensor:
        return self.encoder(x.reshape(-1, *self.image_shape)).flatten(1)

    def predict_utility(self, z: Tensor) -> Tensor:
        """Map released representations to a logit of each class."""
        return self.utility(z)

    def reconstruct(self, z: Tensor, s: Tensor) -> Tensor:
        inside = self.side_z(z.reshape(-1, *self.image_shape))
        if self.side_s is not None:
            planes = s[:, :, None, None].expand(-1, -1, *self.image_shape[1:])
            inside = torch.cat([inside, self.side_s(planes)], dim=1)
        return self.side(inside).flatten(1)


def _normalised(
    entering: int, leaving: int, activation: type[nn.Module] = nn.ReLU
) -> tuple[nn.Module, ...]:
    return _convolution(entering, leaving), nn.GroupNorm(5, leaving), activation()


def representation_net() -> NeuralNet:
    """Build the net that stands behind ``net=None`` of a `PrivateFairEncoder`."""
    return default_net().set_params(
        module=RepresentationModule, criterion=nn.CrossEntropyLoss, lr=0.001
    )
