"""Scores of the optimal fair classifier: the loss that a net learns, and the rule of decision.

The rule is ``2 eta(x) - 1 - multiplier * s(x) > 0`` with

    s(x) = sum_gl direction[g, l] P(a=g, y=l | x).

The direction says what selecting a person of group g and label l costs. For two groups and one
rate it is known; otherwise dual ascent finds it: see ``docs/theory/fair_path.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from skfairdp.engine.objectives import Objective
from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.rates.constraints import Floats


def within(labels: tuple[int, ...], label: Tensor) -> Tensor:
    """Whether, as 0 or 1, a record's label is one of a head's."""
    if len(labels) == 2:
        return torch.ones_like(label)
    return label if labels == (1,) else 1.0 - label


class ScoresObjective(Objective):
    """Sum of the log losses of the label and, among the labels of each head, of the group.

    The targets are the label, 0 or 1, and the group's code. A record's loss is one sum,
    so its gradient is clipped once.

    `rates`: says which heads there are. `n_groups`: at least 2; the logit of the first is 0.
    """

    def __init__(self, rates: Rates, n_groups: int) -> None:
        self._heads = rates.heads
        self._n_groups = n_groups

    def __call__(self, output: Tensor, *targets: Tensor) -> Tensor:
        label, group = (target.to(output.dtype) for target in targets)
        loss = functional.binary_cross_entropy_with_logits(output[:, 0], label, reduction="none")
        for labels, logits, own in self._parts(output, group):
            rest = torch.logsumexp(functional.pad(logits, (1, 0)), dim=1)
            loss = loss + within(labels, label) * (rest - (logits * own).sum(dim=1))
        return loss

    def gradient(self, output: Tensor, *targets: Tensor) -> Tensor:
        label, group = (target.to(output.dtype) for target in targets)
        columns = [(torch.sigmoid(output[:, 0]) - label).unsqueeze(1)]
        for labels, logits, own in self._parts(output, group):
            chances = torch.softmax(functional.pad(logits, (1, 0)), dim=1)[:, 1:]
            columns.append((chances - own) * within(labels, label).unsqueeze(1))
        return torch.cat(columns, dim=1)

    def _parts(
        self, output: Tensor, group: Tensor
    ) -> Iterator[tuple[tuple[int, ...], Tensor, Tensor]]:
        """Labels, logits and one-hot groups of each head."""
        width = self._n_groups - 1
        codes = torch.arange(1, self._n_groups, dtype=output.dtype, device=output.device)
        own = (group.unsqueeze(1) == codes).to(output.dtype)
        for place, labels in enumerate(self._heads):
            yield labels, output[:, 1 + place * width : 1 + (place + 1) * width], own


class Chances(nn.Module):
    """Outputs of a net in float64: ``2 eta - 1``, then P(a=g, y=l | x) for each g, for each l.

    `module`: returns the logits. `rates`: those that are compared; what none of them needs is 0.
    """

    def __init__(self, module: nn.Module, rates: Rates, n_groups: int) -> None:
        super().__init__()
        self.module = module
        self._heads = rates.heads
        self._n_groups = n_groups

    def forward(self, X: Tensor) -> Tensor:
        """Return chances of rows, shape (B, 1 + 2 * n_groups)."""
        logits = self.module(X).double()
        eta = torch.sigmoid(logits[:, 0])
        joint: list[list[Tensor]] = [[torch.zeros_like(eta)] * 2 for _ in range(self._n_groups)]
        width = self._n_groups - 1
        for place, labels in enumerate(self._heads):
            # Column by column: how a sum within a row is ordered must not depend on its place.
            own = [torch.zeros_like(eta), *logits[:, 1 + place * width :].unbind(1)[:width]]
            largest = own[0]
            for column in own[1:]:
                largest = torch.maximum(largest, column)
            powers = [torch.exp(column - largest) for column in own]
            total = sum(powers[1:], powers[0])
            for group, power in enumerate(powers):
                for label in labels:
                    joint[group][label] = (eta if label else 1.0 - eta) * (power / total)
        columns = [2.0 * eta - 1.0, *(part for group in joint for part in group)]
        return torch.stack(columns, dim=1)


class Scores(nn.Module):
    """Scores that decide about a row: the columns ``2 eta - 1`` and ``s``, in float64.

    `chances`: what the net says. `direction` (n_groups, 2): cost of selecting a person of each
    group and label.
    """

    def __init__(self, chances: Chances, direction: Floats) -> None:
        super().__init__()
        self.chances = chances
        self._direction = direction.ravel().tolist()

    def forward(self, X: Tensor) -> Tensor:
        """Return the scores of rows, shape (B, 2)."""
        label, *joint = self.chances(X).unbind(1)
        score = torch.zeros_like(label)
        for cost, chance in zip(self._direction, joint, strict=True):
            score = score + cost * chance
        return torch.stack([label, score], dim=1)
