"""Objective of DP-FERMI: the loss plus a multiple of the dependence on the group."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from skfairdp.engine.objectives import Objective
from skfairdp.engine.release import Statistic
from skfairdp.inprocessing.rates.constraints import Floats
from skfairdp.inprocessing.rates.objective import SoftCosts


class DualMatrix:
    """Dual matrix W, with its coefficients for records of each cell.

    Cells are (group, stratum) pairs, position ``group * n_strata + stratum``; without
    labels there is one stratum. W starts where a prediction that does not depend on the
    group has it: ``sqrt(P_r)`` in every column, which makes psi zero.

    `shares` (n_groups, n_strata): public or released, of each group in each stratum. `max_norm`:
    largest Frobenius norm of the W of a stratum. `W` (n_strata, n_groups, n_classes).
    """

    def __init__(self, shares: Floats, n_classes: int, max_norm: float) -> None:
        self._scales = 1.0 / np.sqrt(shares)
        self._max_norm = max_norm
        start = np.repeat(np.sqrt(shares).T[:, :, None], n_classes, axis=2)
        self.W = self._projected(start)

    def coefficients(self) -> Floats:
        """Cost of a unit of soft prediction, shape (n_groups, n_strata, n_classes).

        psi of a record of the cell is their product with its soft predictions, minus 1.
        """
        own = 2.0 * self.W.transpose(1, 0, 2) * self._scales[:, :, None]
        return np.asarray(own - (self.W**2).sum(axis=1)[None])

    def slopes(self) -> Floats:
        """Derivative of psi by W per unit of soft prediction, (n_groups, n_strata, *W.shape).

        A record's derivative by ``W[y, r, j]`` is the entry of its cell times its soft
        prediction of j.
        """
        n_strata, n_groups, n_classes = self.W.shape
        slopes = np.zeros((n_groups, n_strata, n_strata, n_groups, n_classes))
        group, stratum = np.ogrid[:n_groups, :n_strata]
        slopes[group, stratum, stratum] = -2.0 * self.W
        slopes[group, stratum, stratum, group] += 2.0 * self._scales[:, :, None]
        return slopes

    def ascend(self, gradient: Floats, rate: float) -> None:
        """Move W along a released gradient, flat, then back into its ball."""
        self.W = self._projected(self.W + rate * gradient.reshape(self.W.shape))

    def _projected(self, W: Floats) -> Floats:
        norms = np.linalg.norm(W, axis=(1, 2), keepdims=True)
        return np.asarray(W * np.minimum(1.0, self._max_norm / norms.clip(1e-300)))


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
        """Take over the present W, in the dtype of `like`."""
        self.set_coefficients(self._weight * dual.coefficients(), like)
        n_groups, n_strata, n_classes = self.shape
        slopes = dual.slopes().reshape(n_groups * n_strata, -1, n_classes)
        self._slopes = torch.from_numpy(slopes).to(like)

    def _dual_gradients(self, output: Tensor, *targets: Tensor) -> Tensor:
        """Derivative of every record's psi by W, shape (B, m)."""
        soft = self._kind.scores(output)
        slopes = self._slopes.to(output.device).index_select(0, targets[1])
        return (slopes * soft.unsqueeze(1)).flatten(1)
