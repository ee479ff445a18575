"""Features and labels as public rows, where the sensitive attribute alone is protected.

Under this relation the loss may be computed without noise. But which rows are in the
Poisson batch of a noisy query is secret: a party that sees their un-noised loss gradient knows
the batch, and the query then costs as much as one without sampling. So public batches have
their own generator, and the type below is made without groups and without the
sampler of the noisy queries: it can reveal neither.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import InitVar, dataclass

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.engine.clipping.base import Clipper
from skfairdp.engine.inference import outputs_by_row
from skfairdp.engine.objectives import Objective
from skfairdp.engine.optimizers import FlatParameters
from skfairdp.engine.randomness import OwnDraws, are_served
from skfairdp.engine.row_blocks import block_rows
from skfairdp.privacy.streams import stream_of


@dataclass(frozen=True)
class PublicBatch:
    """Rows that join a noisy sum without clipping, drawn apart from its own batch."""

    rows: np.ndarray  # (B,): row numbers
    # Replacement of each target after the first: the targets that know groups
    others: tuple[int, ...]


@dataclass(eq=False, repr=False)
class PublicFeatures:
    """Rows whose features and labels need no protection."""

    _X: Tensor  # (n, ...): features
    # Targets of the objective; no sensitive feature enters them
    _targets: tuple[Tensor, ...]
    _clipper: Clipper  # Sums gradients of the objective; nothing is clipped here
    # Seeds the batches; independent of the batches of the noisy queries, and may be public
    key: InitVar[bytes]
    _others: tuple[int, ...] = ()  # For `batch`: replacement of each target after the first

    def __post_init__(self, key: bytes) -> None:
        self._generator = stream_of(key)
        self._order = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._X)

    @property
    def labels(self) -> Tensor:
        return self._targets[0]

    def outputs(self, module: nn.Module) -> Tensor:
        """Compute a module's outputs for all rows, as at prediction."""
        return outputs_by_row(module, self._X)

    def batch(self, size: int) -> PublicBatch:
        """Draw the next `size` rows (all, if there are fewer), for a sum that they join.

        Batches go through the rows in a random order, then in another one; what is left of an
        order and fills no batch is left out.
        """
        size = min(size, len(self))
        if len(self._order) < size:
            self._order = self._generator.permutation(len(self))
        rows, self._order = self._order[:size], self._order[size:]
        return PublicBatch(rows, self._others)

    def plain_gradient(
        self, module: nn.Module, flat: FlatParameters, objective: Objective, size: int
    ) -> Tensor:
        """Mean gradient over the next batch by one pass back, where no noise hides its rounding."""
        index = torch.from_numpy(self.batch(size).rows).to(self._X.device)
        losses = objective(module(self._X[index]), *(target[index] for target in self._targets))
        named = dict(module.named_parameters())
        weights = [named[slot.name] for slot in flat.layout]
        found = torch.autograd.grad(losses.mean(), weights)
        return torch.cat([part.reshape(-1) for part in found]).double()

    def gradient(self, size: int) -> Tensor:
        """Mean gradient of the objective over the next batch, without noise."""
        rows = self.batch(size).rows
        index = torch.from_numpy(rows).to(self._X.device)
        X = self._X.index_select(0, index)
        targets = tuple(target.index_select(0, index) for target in self._targets)
        weights = torch.full((len(rows),), 1.0 / len(rows), dtype=torch.float64, device=X.device)
        # Layers that draw, such as dropout, get their own draws: how far the stream of the
        # noisy queries has moved reveals the size of their batches.
        with OwnDraws(self._generator) if are_served() else nullcontext():
            sums = self._clipper.clipped_sums
            return sums(X, targets, float("inf"), weights, rows=block_rows(len(rows)))
