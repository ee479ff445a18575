"""Objective of DP-FERMI: the loss plus a multiple of the dependence on the group."""

from __future__ import annotations

import torch
from torch import Tensor

from skfairdp.engine.objectives import Objective
from skfairdp.engine.release import Statistic
from skfairdp.inprocessing.fermi import DualMatrix
from skfairdp.inprocessing.rates.objective import SoftCosts, soft_predictions


class ErmiObjective(SoftCosts):
    """Loss of a record plus ``weight * psi``, and the gradient of psi as a statistic.

    Targets are the label and the cell of each record.
    """

    def __init__(
        self, base: Objective, n_groups: int, n_strata: int, n_classes: int, weight: float
    ) -> None:
        super().__init__(base, base, (n_groups, n_strata, n_classes), 1.0)
        self.shape = (n_groups, n_strata, n_classes)
        self._weight = weight
        size = n_strata * n_groups * n_classes
        self._slopes = torch.zeros(n_groups * n_strata, size // n_classes, n_classes)
        self.statistic = Statistic(size, self._dual_gradients)

    def follow(self, dual: DualMatrix, like: Tensor) -> None:
        """Take over the present W, in dtype and on the device of `like`."""
        self.set_coefficients(self._weight * dual.coefficients(), like)
        n_groups, n_strata, n_classes = self.shape
        slopes = dual.slopes().reshape(n_groups * n_strata, -1, n_classes)
        self._slopes = torch.from_numpy(slopes).to(like)

    def _dual_gradients(self, output: Tensor, *targets: Tensor) -> Tensor:
        """Derivative of every record's psi by W, shape (B, m)."""
        soft = soft_predictions(output, self._kind, 1.0)
        slopes = self._slopes.index_select(0, targets[1])
        return (slopes * soft.unsqueeze(1)).flatten(1)
