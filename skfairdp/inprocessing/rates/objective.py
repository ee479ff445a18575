"""Contribution of a record to rates: smooth in the gradient, exact in the histogram."""

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
    softmax_by_row,
)
from skfairdp.engine.release import Statistic
from skfairdp.inprocessing.rates.constraints import RateConstraints


class ConstrainedObjective(Objective):
    """An objective whose constraint part follows released values."""

    constraints: RateConstraints
    statistic: Statistic  # What a record adds to the released histogram

    def set_coefficients(self, coefficients: np.ndarray, like: Tensor) -> None:
        """Replace the coefficients (n_groups, n_labels, n_classes) by other released values.

        `like`: gives dtype and device of the module.
        """
        raise NotImplementedError


class SoftCosts(Objective):
    """Loss of a record plus costs of its soft predictions.

    ``loss_i = base_i + sum_k A[cell_i, k] softpred_k(i)``, where A holds coefficients
    that follow from released values. Takes two targets: labels, and the cell of each
    record, a position in the leading axes of A or one past their end for none.

    `base`: loss of a record; None leaves it out. `kind`: tells what the module's outputs are.
    `shape`: of A, which is zero at first. `sharpness`: factor on the logits of soft predictions.
    """

    def __init__(
        self, base: Objective | None, kind: Objective, shape: tuple[int, ...], sharpness: float
    ) -> None:
        self._base = base
        self._kind = kind
        self._sharpness = float(sharpness)
        self.set_coefficients(np.zeros(shape), torch.zeros(()))

    def set_coefficients(self, coefficients: np.ndarray, like: Tensor) -> None:
        """Replace A by other released values, in the dtype of `like`."""
        rows = coefficients.reshape(-1, coefficients.shape[-1])
        # A last row, of zeros, for records that belong to no cell.
        padded = np.concatenate([rows, np.zeros_like(rows[:1])])
        self._table = torch.from_numpy(padded).to(like)
        self._lean = self._table[:, -1] - self._table[:, 0]

    def scores(self, output: Tensor, sharpness: float = 1.0) -> Tensor:
        return self._kind.scores(output, sharpness)

    def decisions(self, output: Tensor) -> Tensor:
        return self._kind.decisions(output)

    def __call__(self, output: Tensor, *targets: Tensor) -> Tensor:
        soft = self._kind.scores(output, self._sharpness)
        pull = (self._table.to(output.device)[targets[1]] * soft).sum(dim=-1)
        return pull if self._base is None else self._base(output, targets[0]) + pull

    def gradient(self, output: Tensor, *targets: Tensor) -> Tensor | None:
        if isinstance(self._kind, NegativeLogLikelihoodObjective):
            return None
        gradient = torch.zeros_like(output)
        if self._base is not None:
            of_base = self._base.gradient(output, targets[0])
            if of_base is None:
                return None
            gradient = of_base
        if isinstance(self._kind, BinaryObjective):
            soft = torch.sigmoid(output.reshape(-1) * self._sharpness)
            slope = torch.addcmul(soft, soft, soft, value=-1.0)
            slope.mul_(self._lean.to(output.device).index_select(0, targets[1])).mul_(
                self._sharpness
            )
            return gradient.add_(slope.view_as(gradient))
        soft = softmax_by_row(output * self._sharpness)
        pull = self._table.to(output.device).index_select(0, targets[1])
        centred = pull - (pull * soft).sum(dim=1, keepdim=True)
        return gradient.add_(centred.mul_(soft), alpha=self._sharpness)


def hard_histogram(kind: Objective, shape: tuple[int, int, int]) -> Statistic:
    """One-hot (group x label x predicted class) vector of each record, zeros for one of no cell."""
    n_classes = shape[2]
    size = shape[0] * shape[1] * n_classes
    # Row by row the answer for each entry; the last rows are for records of no cell.
    rows = torch.cat([torch.eye(size, dtype=torch.float64), torch.zeros(n_classes, size)])

    def of(output: Tensor, *targets: Tensor) -> Tensor:
        entry = torch.add(kind.decisions(output), targets[-1], alpha=n_classes)
        return rows.to(output.device).index_select(0, entry)

    return Statistic(size, of)


class LossOrRates(SoftCosts, ConstrainedObjective):
    """Loss of public records, or constraint terms of records of a secret batch.

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


class CostObjective(ConstrainedObjective):
    """Cross-entropy weighted by the cost of each decision.

    Predicting class k for a record of cell c with label y costs ``cost_k = E[y, k] + A[c, k]``,
    where A are the coefficients of `RateConstraints`, and E is 1 for an error. With a threshold t
    between two classes it is 2t for a false positive and 2(1 - t) for a missed one. The record's
    loss is ``-sum_k W[c, k] log p_k`` with ``W[c, k] = max_j cost_j - cost_k``; see "The loss" and
    "Other costs" in ``docs/theory/rate_constrained.md``.

    `base`: loss of the net, which tells what its outputs are. The cell of a record, ``group *
    n_labels + label``, is the last target, and all that is needed of them. `threshold`: t, a
    public number.
    """

    def __init__(
        self, base: Objective, constraints: RateConstraints, threshold: float = 0.5
    ) -> None:
        _refuse_weights(base)
        self._base = base
        self.constraints = constraints
        self._errors = 1.0 - np.eye(constraints.shape[-1])
        if constraints.shape[-1] == 2:
            self._errors *= np.array([[2.0 * threshold], [2.0 * (1.0 - threshold)]])
        self.statistic = hard_histogram(base, constraints.shape)
        self.set_coefficients(np.zeros(constraints.shape), torch.zeros(()))

    def scores(self, output: Tensor, sharpness: float = 1.0) -> Tensor:
        return self._base.scores(output, sharpness)

    def decisions(self, output: Tensor) -> Tensor:
        return self._base.decisions(output)

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
        return -(self._weights.to(output.device)[targets[-1]] * logs).sum(dim=1)

    def gradient(self, output: Tensor, *targets: Tensor) -> Tensor | None:
        cells = targets[-1]
        if isinstance(self._base, BinaryObjective):
            both = self._total_and_last.to(output.device).index_select(0, cells)
            total, last = both.unbind(1)
            gradient = torch.sigmoid(output.reshape(-1)).mul_(total).sub_(last)
            return gradient.view(output.shape)
        if isinstance(self._base, NegativeLogLikelihoodObjective):
            return None
        gradient = softmax_by_row(output)
        weights = self._weights.to(output.device).index_select(0, cells)
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
