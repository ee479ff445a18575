"""A convex loss for decisions whose costs depend on the cell of a record."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from skfairdp.engine.objectives import (
    BinaryObjective,
    CrossEntropyObjective,
    NegativeLogLikelihoodObjective,
    Objective,
)
from skfairdp.inprocessing.rates.constraints import RateConstraints
from skfairdp.inprocessing.rates.objective import ConstrainedObjective, hard_histogram


class CostObjective(ConstrainedObjective):
    """Cross-entropy weighted by what each decision would cost.

    Predicting class k for a record of cell c with label y costs ``cost_k = 1[k != y] + A[c, k]``,
    where A are the coefficients of `RateConstraints`. The record's loss is ``-sum_k W[c, k] log
    p_k`` with ``W[c, k] = max_j cost_j - cost_k``; see "The loss" in
    ``docs/theory/rate_constrained.md``.

    `base`: loss of the net, which tells what its outputs are. The cell of a record, ``group *
    n_labels + label``, is the last target, and all that is needed of them.
    """

    def __init__(self, base: Objective, constraints: RateConstraints) -> None:
        _refuse_weights(base)
        self._base = base
        self.constraints = constraints
        self._errors = 1.0 - np.eye(constraints.shape[-1])
        self.statistic = hard_histogram(base, constraints.shape)
        self.set_coefficients(np.zeros(constraints.shape), torch.zeros(()))

    def set_coefficients(self, coefficients: np.ndarray, like: Tensor) -> None:
        costs = coefficients + self._errors
        weights = np.zeros((coefficients.shape[0] * coefficients.shape[1] + 1, costs.shape[-1]))
        # A last row, of zeros, for records that belong to no cell.
        weights[:-1] = (costs.max(axis=-1, keepdims=True) - costs).reshape(-1, costs.shape[-1])
        self._weights = torch.from_numpy(weights).to(like)
        # Binary: the gradient is total * sigmoid(z) - last; one gather fetches both.
        pair = np.column_stack([weights.sum(axis=1), weights[:, -1]])
        self._total_and_last = torch.from_numpy(pair).to(like)

    def __call__(self, output: Tensor, *targets: Tensor) -> Tensor:
        if isinstance(self._base, BinaryObjective):
            z = output.reshape(-1)
            logs = torch.stack([functional.logsigmoid(-z), functional.logsigmoid(z)], dim=1)
        elif isinstance(self._base, NegativeLogLikelihoodObjective):
            logs = torch.log(output + torch.finfo(output.dtype).eps)
        else:
            logs = torch.log_softmax(output, dim=1)
        return -(self._weights[targets[-1]] * logs).sum(dim=1)

    def gradient(self, output: Tensor, *targets: Tensor) -> Tensor | None:
        cells = targets[-1]
        if isinstance(self._base, BinaryObjective):
            total, last = self._total_and_last.index_select(0, cells).unbind(1)
            gradient = torch.sigmoid(output.reshape(-1)).mul_(total).sub_(last)
            return gradient.view(output.shape)
        if isinstance(self._base, NegativeLogLikelihoodObjective):
            return None
        gradient = torch.softmax(output, dim=1)
        weights = self._weights.index_select(0, cells)
        return gradient.mul_(weights.sum(dim=1, keepdim=True)).sub_(weights)


def _refuse_weights(base: Objective) -> None:
    weighted = getattr(base, "weight", None) is not None
    if isinstance(base, BinaryObjective):
        weighted |= base.pos_weight is not None
    if isinstance(base, CrossEntropyObjective):
        weighted |= base.label_smoothing != 0.0
    if isinstance(base, CrossEntropyObjective | NegativeLogLikelihoodObjective):
        weighted |= base.ignore_index >= 0
    if weighted:
        raise ValueError(
            "'net' has a criterion with class weights, label smoothing or an ignored label. Here "
            "the constraints set the costs of decisions; use the plain criterion."
        )
