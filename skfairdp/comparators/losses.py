"""What a comparator is trained by: batches, the widths of its networks, and its losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn


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
        """Group codes, shape (n,)."""
        return self.s[:, 0]

    def take(self, index: Tensor) -> Batch:
        """Return the rows with these positions.

        `index` (m,): positions.
        """
        return Batch(*(part.index_select(0, index) for part in (self.x, self.y, self.s)))


@dataclass(frozen=True)
class Widths:
    """How wide the networks' ends are."""

    # n_features, n_components, n_classes: columns of the rows and of the representation; labels
    n_features: int
    n_components: int
    n_classes: int
    n_values: tuple[int, ...]
    hidden: tuple[int, ...]
    binary: Tensor  # (n_features,): columns that hold only 0 and 1

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.n_values[0]


class Losses(nn.Module):
    """The networks of one method and the losses that train them.

    Where a method is adversarial, ``rival`` takes `rival_steps` steps by `rival_loss` on every
    batch before all other networks take one by `loss`.
    """

    adversarial: ClassVar[bool] = False
    rival_steps: int = 1
    encoder: nn.Module
    rival: nn.Module

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        """Loss of the encoder and of what helps it."""
        raise NotImplementedError

    def rival_loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        """Loss of the network that works against the encoder."""
        raise NotImplementedError
