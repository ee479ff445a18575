"""Default modules: a perceptron for tables and a small network for images.

Both consist of ``features`` (everything but the last layer) and a linear ``head``,
the split that weight clipping and ensembles of heads rely on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn


class MLP(nn.Module):
    """Multi-layer perceptron.

    `n_features`: number of columns of the input. `n_outputs`: number of outputs: 1 logit for two
    classes, K logits for K. `hidden_sizes`: widths of the hidden layers; empty for a linear
    model. `activation`: class of the activation after every hidden layer. Bounded activations
    keep per-record gradients small, which suits clipping.

    Examples
    --------
    >>> import torch
    >>> from skfairdp.engine.modules import MLP
    >>> MLP(5, hidden_sizes=(8, 4))(torch.zeros(3, 5)).shape
    torch.Size([3, 1])
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int = 1,
        hidden_sizes: Sequence[int] = (64,),
        activation: type[nn.Module] = nn.Tanh,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = n_features
        for hidden in hidden_sizes:
            layers += [nn.Linear(width, hidden), activation()]
            width = hidden
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(width, n_outputs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (B, n_outputs), of rows of shape (B, n_features)."""
        scores: torch.Tensor = self.head(self.features(X))
        return scores


class OfEachRow(nn.Module):
    """A function of each row of another module's output, by itself."""

    module: nn.Module


class SomeInputs(nn.Module):
    """Some columns of the input, scaled; it has no weights.

    `places`: of the columns. `scale`: factor on each entry.
    """

    def __init__(self, places: Sequence[int], scale: float) -> None:
        super().__init__()
        self.register_buffer("_places", torch.tensor(places))
        self._scale = scale

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the columns, shape (B, number of places)."""
        places: torch.Tensor = self.get_buffer("_places")
        return X.index_select(-1, places) * self._scale


class CellInputs(nn.Module):
    """Zeros and ones of the levels of columns, and of the cells of pairs of columns.

    It has no weights. Columns of the input are zero or not; of each row, the cells of a pair are
    sums of some columns' numbers. Products of zeros, ones and small whole numbers are exact.

    `cells` (2, n_pairs, n_inputs): number that each column of the input stands for, in the first
    and in the second column of each pair. `shapes`: numbers of cells of each pair. `start`: place
    of the first pair's cells; what comes after the last is 0. `value`: size of every entry.
    """

    def __init__(
        self, cells: np.ndarray, shapes: Sequence[tuple[int, int]], start: int, value: float
    ) -> None:
        super().__init__()
        by_input = cells.reshape(-1, cells.shape[-1]).T.copy()
        self.register_buffer("_cells", torch.from_numpy(by_input))
        self._shapes, self._start, self._value = tuple(shapes), start, value

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return inputs of the shape of X (B, n_inputs)."""
        levels = (X != 0).to(X.dtype)
        places = levels @ self.get_buffer("_cells").to(X.dtype)
        parts = [levels[:, : self._start]]
        for pair, (first, second) in enumerate(self._shapes):
            place = places[:, pair] * second + places[:, len(self._shapes) + pair]
            cells = torch.arange(first * second, device=X.device, dtype=X.dtype)
            parts.append((place[:, None] == cells).to(X.dtype))
        used = sum(part.shape[1] for part in parts)
        parts.append(torch.zeros_like(X[:, used:]))
        return torch.cat(parts, dim=1) * self._value


class SmallCNN(nn.Module):
    """Two strided convolutions, average pooling and a linear head.

    Made for private training of small grey or colour images: few parameters (noise
    grows with their number), group normalisation (batch normalisation mixes
    records) and strides early on (per-record gradients are cheap).

    `image_shape`: channels, height and width, in pixels. Rows that come flattened, of shape (B,
    channels * height * width), are given this shape. `channels`: channels of the two
    convolutions; multiples of 4. `activation`: class of the activation after both convolutions.

    Examples
    --------
    >>> import torch
    >>> from skfairdp.engine.modules import SmallCNN
    >>> SmallCNN()(torch.zeros(3, 48 * 48)).shape
    torch.Size([3, 1])
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int] = (1, 48, 48),
        n_outputs: int = 1,
        channels: tuple[int, int] = (16, 32),
        activation: type[nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__()
        self.image_shape = tuple(image_shape)
        first, second = channels
        self.features = nn.Sequential(
            nn.Conv2d(image_shape[0], first, kernel_size=5, stride=3, padding=2),
            nn.GroupNorm(4, first),
            activation(),
            nn.Conv2d(first, second, kernel_size=3, stride=2, padding=1),
            nn.GroupNorm(4, second),
            activation(),
            nn.AvgPool2d(2, ceil_mode=True),
            nn.Flatten(),
        )
        height, width = image_shape[1:]
        for stride in (3, 2, 2):
            height, width = math.ceil(height / stride), math.ceil(width / stride)
        self.head = nn.Linear(second * height * width, n_outputs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return logits, shape (B, n_outputs), of images, flattened or not."""
        scores: torch.Tensor = self.head(self.features(X.reshape(-1, *self.image_shape)))
        return scores
