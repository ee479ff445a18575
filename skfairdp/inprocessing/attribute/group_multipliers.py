"""Multipliers of constraints whose gradients are released group by group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skfairdp.engine.objectives import Objective
from skfairdp.engine.public_features import PublicFeatures
from skfairdp.inprocessing.rates.constraints import RateConstraints
from skfairdp.inprocessing.rates.objective import ConstrainedObjective, SoftCosts, hard_histogram
from skfairdp.inprocessing.rates.training import Lagrangian


class LossOrRates(SoftCosts, ConstrainedObjective):
    """Loss of a public record, or the share in the constraints of one of a secret batch.

    The cell of a record is ``group * n_labels + label``; that of a public record is `nobody`, and
    no record of a secret batch has it.

    `sharpness`: factor on the logits before they become soft predictions.
    """

    def __init__(self, loss: Objective, constraints: RateConstraints, sharpness: float) -> None:
        super().__init__(None, loss, constraints.shape, sharpness)
        self.constraints = constraints
        self.statistic = hard_histogram(loss, constraints.shape)
        self.nobody = constraints.shape[0] * constraints.shape[1]

    def __call__(self, output: Tensor, *targets: Tensor) -> Tensor:
        loss = self._kind(output, targets[0])
        return torch.where(targets[1] == self.nobody, loss, super().__call__(output, *targets))

    def gradient(self, output: Tensor, *targets: Tensor) -> Tensor | None:
        gradient = super().gradient(output, *targets)
        loss = None if gradient is None else self._kind.gradient(output, targets[0])
        if gradient is None or loss is None:
            return None
        public = (targets[1] == self.nobody).view(-1, *(1,) * (output.dim() - 1))
        return torch.where(public, loss, gradient)


@dataclass(eq=False)
class BlockLagrangian(Lagrangian):
    """A Lagrangian split into one block a group, as attribute privacy wants it.

    Every group's gradient sum gets noise of its own, so multipliers, signs and masses may
    only act on the noisy sums. Within a group they differ between labels; that part is
    normalised and stays with the records, whose vectors are clipped after it.

    `memory`: weight in [0, 1) of the past in the moving mean of the released histograms.
    `noise_std`: standard deviation of the noise on an entry of one released histogram.
    `loss_rows`: where the gradient of the loss comes from, which needs no noise. `loss_batch`:
    rows of a batch of these. `cell_weights` (n_groups,): weight of each group's noisy gradient
    sum. `coefficients` (n_groups, n_labels, n_classes): what a record of each cell contributes to
    its group's block: those of one record differ by at most 1.
    """

    loss_rows: PublicFeatures
    loss_batch: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cell_weights = np.zeros(self.constraints.shape[0])

    def observe(self, histogram: NDArray[np.float64]) -> None:
        """Take in a released histogram, in shares of a batch."""
        super().observe(histogram)
        spread = self.coefficients.max(axis=2) - self.coefficients.min(axis=2)
        self.cell_weights = spread.max(axis=1)
        used = self.cell_weights > 0.0
        scale = np.where(used, self.cell_weights, 1.0)[:, None, None]
        self.coefficients = self.coefficients / scale
