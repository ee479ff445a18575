"""Objective of the net of a blind fair regressor: a number, and the group of a row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from skfairdp.engine.modules import OfEachRow
from skfairdp.engine.objectives import NumberObjective, softmax_by_row


@dataclass(eq=False)
class NumberAndGroupObjective(NumberObjective):
    """Sum of the loss of a number, the first output, and the log loss of the group.

    The targets are the number and the code of the group; the other outputs are logits of all groups
    but the first, whose logit is 0. A record's loss is one sum, so its gradient is clipped once.
    """

    def __call__(self, output: Tensor, *targets: Tensor) -> Tensor:
        number, group = targets
        logits = functional.pad(output[:, 1:], (1, 0))
        own = functional.one_hot(group.long(), logits.shape[1]).to(logits.dtype)
        loss = torch.logsumexp(logits, dim=1) - (logits * own).sum(dim=1)
        return super().__call__(output[:, 0], number) + loss

    def gradient(self, output: Tensor, *targets: Tensor) -> Tensor | None:
        number, group = targets
        first = super().gradient(output[:, 0], number)
        if first is None:
            return None
        logits = functional.pad(output[:, 1:], (1, 0))
        own = functional.one_hot(group.long(), logits.shape[1]).to(logits.dtype)
        return torch.cat([first[:, None], (softmax_by_row(logits) - own)[:, 1:]], dim=1)


class NumberAndChances(OfEachRow):
    """Outputs in float64: the scaled number, and the chance of each group where it is learned."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, X: Tensor) -> Tensor:
        """Return what is known of rows, shape (B, 1) or (B, 1 + n_groups)."""
        output = self.module(X).double()
        output = output[:, None] if output.dim() == 1 else output
        number = output[:, :1]
        if output.shape[1] == 1:
            return number
        # Column by column: how a sum within a row is ordered must not depend on its place.
        columns = [torch.zeros_like(output[:, 0]), *output[:, 1:].unbind(1)]
        largest = columns[0]
        for column in columns[1:]:
            largest = torch.maximum(largest, column)
        powers = [torch.exp(column - largest) for column in columns]
        total = sum(powers[1:], powers[0])
        return torch.cat([number, torch.stack([power / total for power in powers], dim=1)], dim=1)
