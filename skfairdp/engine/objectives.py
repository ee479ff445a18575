"""Losses of single records, made from a torch criterion.

A criterion reduces a batch to one number and may mix its records on the way. An objective gives one
loss per record, so that each record's gradient can be clipped. `reduction` of the criterion, and
the normaliser of a class-weighted mean (a sum over the secret batch), play no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from skfairdp.engine.exact_products import FEW_COLUMNS
from skfairdp.records.numbers import UNIT, TargetBounds


class Objective:
    """Loss of each record, given the module's output and the targets."""

    def __call__(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor:
        """Return the losses, shape (B,), of outputs of shape (B,) or (B, K)."""
        raise NotImplementedError

    def gradient(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor | None:
        """Return d loss_i / d output_i as a new tensor, None where not known."""
        return None

    def scores(self, output: torch.Tensor, sharpness: float = 1.0) -> torch.Tensor:
        """Return class probabilities (B, n_classes); logits are multiplied by `sharpness`."""
        raise TypeError(_NO_CLASSES.format(type(self).__name__, "scores"))

    def decisions(self, output: torch.Tensor) -> torch.Tensor:
        """Return the code of each record's predicted class, shape (B,), as `predict` does."""
        raise TypeError(_NO_CLASSES.format(type(self).__name__, "decisions"))


_NO_CLASSES = (
    "{0} is not the loss of a classifier. If its outputs stand for classes, define "
    "{0}.{1}(output), or hand it on to the objective that {0} was made from."
)


def check_losses(losses: torch.Tensor, expected: tuple[int, ...]) -> None:
    """Refuse losses that are not one for each record."""
    if losses.shape != expected:
        raise ValueError(
            f"The objective returned losses of shape {('B', *losses.shape[1:])} for B records; it "
            "must return one loss per record, shape (B,)."
        )


def softmax_by_row(logits: torch.Tensor) -> torch.Tensor:
    """Compute the softmax of each row, shape (B, K), as a new tensor; of few columns transposed."""
    if logits.shape[1] >= FEW_COLUMNS or logits.device.type != "cpu":
        return torch.softmax(logits, dim=1)
    return torch.softmax(logits.t().contiguous(), dim=0).t().contiguous()


def _rows(output: torch.Tensor, name: str) -> torch.Tensor:
    """Return the output with one row per record; a record alone may come as a scalar."""
    if not isinstance(output, torch.Tensor):
        raise TypeError(
            f"The module must return one tensor for {name}, it returned a {type(output).__name__}."
        )
    return output.reshape(1) if output.dim() == 0 else output


def _refuse_shapes(name: str, output: torch.Tensor, target: torch.Tensor, allowed: str) -> None:
    # Shapes of one record only: how many records there are is secret.
    raise ValueError(
        f"{name} got an output of shape {('B', *output.shape[1:])} and a target of shape "
        f"{('B', *target.shape[1:])} for B records; it needs {allowed}."
    )


@dataclass(eq=False)
class BinaryObjective(Objective):
    """Per-record ``BCEWithLogitsLoss``.

    Accepts (output, target) shapes (B,) or (B, 1) in any combination, and (B, K) with
    (B, K): the loss of a record is then the mean over its K entries. Never broadcasts
    records against each other. Weights, of entries and of positive targets, are scalars or (K,).
    """

    weight: torch.Tensor | None = None
    pos_weight: torch.Tensor | None = None

    def __call__(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor:
        output, target = self._aligned(output, targets[0])
        losses = functional.binary_cross_entropy_with_logits(
            output, target, weight=self.weight, pos_weight=self.pos_weight, reduction="none"
        )
        return losses.mean(dim=1)

    def gradient(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor | None:
        if self.weight is not None or self.pos_weight is not None:
            return None
        aligned, target = self._aligned(output, targets[0])
        gradient = torch.sigmoid(aligned).sub_(target)
        if aligned.shape[1] > 1:
            gradient.div_(aligned.shape[1])
        return gradient if aligned is output else gradient.view(output.shape)

    def scores(self, output: torch.Tensor, sharpness: float = 1.0) -> torch.Tensor:
        positive = torch.sigmoid(output.reshape(-1) * sharpness)
        return torch.stack([1.0 - positive, positive], dim=1)

    def decisions(self, output: torch.Tensor) -> torch.Tensor:
        return output.reshape(-1) > 0

    @staticmethod
    def _aligned(output: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output = _rows(output, "BCEWithLogitsLoss")
        columns = output if output.dim() == 2 else output.unsqueeze(1)
        target = target if target.dim() == 2 else target.unsqueeze(-1)
        if columns.dim() != 2 or columns.shape != target.shape:
            _refuse_shapes(
                "BCEWithLogitsLoss", output, target, "(B,) or (B, 1) for both, or (B, K) for both"
            )
        return columns, target if target.dtype == columns.dtype else target.to(columns.dtype)


@dataclass(eq=False)
class CrossEntropyObjective(Objective):
    """Per-record ``CrossEntropyLoss`` of logits of shape (B, K).

    `weight` (K,): class weights. They scale a record's loss and are not divided by their sum over
    the batch. `ignore_index`: target whose record has loss 0.
    """

    weight: torch.Tensor | None = None
    ignore_index: int = -100
    label_smoothing: float = 0.0

    def __call__(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor:
        target = targets[0]
        self._check(output, target)
        return functional.cross_entropy(
            output,
            target if target.is_floating_point() else target.long(),
            weight=self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction="none",
        )

    def gradient(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor | None:
        target = targets[0]
        plain = self.weight is None and self.label_smoothing == 0.0
        if not plain or target.is_floating_point():
            return None
        self._check(output, target)
        target = target.long()
        minus_one = torch.full_like(output[:, :1], -1.0)
        ignored = (target == self.ignore_index).unsqueeze(1)
        # The same arithmetic for every record, whatever the targets of the others.
        where = target.unsqueeze(1).masked_fill(ignored, 0)
        gradient = softmax_by_row(output).scatter_add_(1, where, minus_one)
        return gradient.masked_fill_(ignored, 0.0)

    def scores(self, output: torch.Tensor, sharpness: float = 1.0) -> torch.Tensor:
        return torch.softmax(output * sharpness, dim=1)

    def decisions(self, output: torch.Tensor) -> torch.Tensor:
        return output.argmax(dim=1)

    @staticmethod
    def _check(output: torch.Tensor, target: torch.Tensor) -> None:
        _rows(output, "CrossEntropyLoss")
        classes = target.dim() == 1 and not target.is_floating_point()
        shares = target.dim() == 2 and target.is_floating_point()
        if output.dim() != 2 or not (
            (classes and len(target) == len(output)) or (shares and target.shape == output.shape)
        ):
            _refuse_shapes(
                "CrossEntropyLoss",
                output,
                target,
                "outputs (B, K) with integer class codes (B,) or class shares (B, K)",
            )


@dataclass(eq=False)
class NegativeLogLikelihoodObjective(Objective):
    """Per-record ``NLLLoss`` under skorch's convention.

    The module returns probabilities of shape (B, K); the loss is ``-weight[y] * log(p[y] + eps)``
    with eps the resolution of the dtype, as in ``skorch.NeuralNetClassifier.get_loss``.
    """

    weight: torch.Tensor | None = None
    ignore_index: int = -100

    def __call__(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor:
        target = targets[0]
        _rows(output, "NLLLoss")
        if output.dim() != 2 or target.dim() != 1 or len(target) != len(output):
            _refuse_shapes(
                "NLLLoss", output, target, "probabilities (B, K) with integer class codes (B,)"
            )
        return functional.nll_loss(
            self._logits(output),
            target.long(),
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction="none",
        )

    def scores(self, output: torch.Tensor, sharpness: float = 1.0) -> torch.Tensor:
        return torch.softmax(self._logits(output) * sharpness, dim=1)

    def decisions(self, output: torch.Tensor) -> torch.Tensor:
        return output.argmax(dim=1)

    @staticmethod
    def _logits(output: torch.Tensor) -> torch.Tensor:
        return torch.log(output + torch.finfo(output.dtype).eps)


class WeightedObjective(Objective):
    """Losses of another objective, each times the weight of the record's class.

    `weights`: of the classes by code, in (0, 1].
    """

    def __init__(self, base: Objective, weights: Sequence[float]) -> None:
        self._base, self._weights = base, torch.tensor(weights)

    def __call__(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor:
        losses = self._base(output, *targets)
        return losses * self._of(targets[0], losses)

    def gradient(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor | None:
        gradient = self._base.gradient(output, *targets)
        if gradient is None:
            return None
        weights = self._of(targets[0], gradient)
        return gradient.mul_(weights.view(-1, *[1] * (gradient.dim() - 1)))

    def scores(self, output: torch.Tensor, sharpness: float = 1.0) -> torch.Tensor:
        return self._base.scores(output, sharpness)

    def decisions(self, output: torch.Tensor) -> torch.Tensor:
        return self._base.decisions(output)

    def _of(self, labels: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return self._weights.to(like)[labels.long()]


@dataclass(eq=False)
class NumberObjective(Objective):
    """Per-record ``MSELoss`` or ``HuberLoss`` of one output and one number a record.

    Accepts outputs of shape (B,) or (B, 1) and numbers of shape (B,), and never broadcasts
    records against each other. A number is scaled by public or released bounds, entry by entry.
    """

    # Distance from which the loss is linear; None: squared everywhere
    delta: float | None = None
    bounds: TargetBounds = UNIT

    def __call__(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor:
        output, target = self._aligned(output, targets[0])
        if self.delta is None:
            losses = functional.mse_loss(output, target, reduction="none")
        else:
            losses = functional.huber_loss(output, target, reduction="none", delta=self.delta)
        return losses

    def gradient(self, output: torch.Tensor, *targets: torch.Tensor) -> torch.Tensor | None:
        aligned, target = self._aligned(output, targets[0])
        residuals = aligned - target
        if self.delta is None:
            residuals.mul_(2.0)
        else:
            residuals.clamp_(-self.delta, self.delta)
        return residuals.view(output.shape)

    def _aligned(
        self, output: torch.Tensor, target: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        output = _rows(output, "MSELoss or HuberLoss")
        flat = output.squeeze(1) if output.dim() == 2 and output.shape[1] == 1 else output
        if flat.dim() != 1 or flat.shape != target.shape:
            _refuse_shapes("MSELoss or HuberLoss", output, target, "(B,) or (B, 1), and (B,)")
        return flat, self.bounds.scaled(target).to(flat.dtype)


def objective_for(criterion: nn.Module) -> Objective:
    """Return the per-record losses of a torch criterion; a subclass of one may mix the batch."""
    if type(criterion) is nn.BCEWithLogitsLoss:
        for name in ("weight", "pos_weight"):
            weight = getattr(criterion, name)
            if weight is not None and weight.dim() > 1:
                raise ValueError(
                    f"BCEWithLogitsLoss has a {name} of {weight.dim()} dimensions; a scalar or "
                    "one weight per output is allowed, not one per position in a batch."
                )
        return BinaryObjective(criterion.weight, criterion.pos_weight)
    if type(criterion) is nn.CrossEntropyLoss:
        return CrossEntropyObjective(
            criterion.weight, criterion.ignore_index, criterion.label_smoothing
        )
    if type(criterion) is nn.NLLLoss:
        return NegativeLogLikelihoodObjective(criterion.weight, criterion.ignore_index)
    if type(criterion) is nn.MSELoss:
        return NumberObjective()
    if type(criterion) is nn.HuberLoss:
        return NumberObjective(float(criterion.delta))
    raise ValueError(
        f"The criterion {type(criterion).__name__} may mix the records of a batch, so that no "
        "record's gradient can be bounded. Use torch.nn.BCEWithLogitsLoss, CrossEntropyLoss or "
        "NLLLoss (with a module that returns probabilities); for numbers MSELoss or HuberLoss."
    )
