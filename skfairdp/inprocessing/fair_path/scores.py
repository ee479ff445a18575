"""Scores of the optimal fair classifier: the loss that a net learns, and the rule of decision.

The rule is the k with the largest ``eta_k(x) - multiplier * s_k(x)`` with

    s_k(x) = sum_gl direction[g, l, k] P(a=g, y=l | x).

The direction says what answer k to a person of group g and label l costs. For two groups and one
rate it is known; otherwise dual ascent finds it. Of two classes the first costs nothing, and the
second is chosen where ``2 (eta(x) - t) - multiplier * s(x) > 0`` with a threshold t, one half for
accuracy: see ``docs/theory/fair_path.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from skfairdp.engine.exact_products import elementwise
from skfairdp.engine.modules import OfEachRow
from skfairdp.engine.objectives import Objective, softmax_by_row
from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.fair_path.envelope import costs_of
from skfairdp.inprocessing.rates.constraints import Floats


def within(labels: tuple[int, ...], label: Tensor) -> Tensor:
    """Whether, as 0 or 1, a record's label is one of a head's."""
    return sum(((label == own).to(label) for own in labels), torch.zeros_like(label))


class LabelObjective(Objective):
    """Log loss of the label, from the first logits: one for two classes, else one a class.

    `rates`: says how many classes there are.
    """

    def __init__(self, rates: Rates) -> None:
        self._n_logits = rates.n_label_logits

    def __call__(self, output: Tensor, *targets: Tensor) -> Tensor:
        label = targets[0].to(output.dtype)
        if self._n_logits == 1:
            logit = output[:, 0]
            return functional.binary_cross_entropy_with_logits(logit, label, reduction="none")
        logits, own = output[:, : self._n_logits], self._own(label)
        return torch.logsumexp(logits, dim=1) - (logits * own).sum(dim=1)

    def gradient(self, output: Tensor, *targets: Tensor) -> Tensor:
        label = targets[0].to(output.dtype)
        if self._n_logits == 1:
            return (torch.sigmoid(output[:, 0]) - label).unsqueeze(1)
        return softmax_by_row(output[:, : self._n_logits]) - self._own(label)

    def _own(self, label: Tensor) -> Tensor:
        codes = torch.arange(self._n_logits, dtype=label.dtype, device=label.device)
        return (label.unsqueeze(1) == codes).to(label)


class ScoresObjective(Objective):
    """Sum of the log losses of the label and, among the labels of each head, of the group.

    The targets are the label's code and the group's. A record's loss is one sum,
    so its gradient is clipped once.

    `rates`: says which heads there are. `n_groups`: at least 2; the logit of the first is 0.
    """

    def __init__(self, rates: Rates, n_groups: int) -> None:
        self._of_label = LabelObjective(rates)
        self._heads, self._first = rates.heads, rates.n_label_logits
        self._n_groups = n_groups

    def __call__(self, output: Tensor, *targets: Tensor) -> Tensor:
        label, group = (target.to(output.dtype) for target in targets)
        loss = self._of_label(output, label)
        for labels, logits, own in self._parts(output, group):
            rest = torch.logsumexp(functional.pad(logits, (1, 0)), dim=1)
            loss = loss + within(labels, label) * (rest - (logits * own).sum(dim=1))
        return loss

    def gradient(self, output: Tensor, *targets: Tensor) -> Tensor:
        label, group = (target.to(output.dtype) for target in targets)
        if self._n_groups == 2 and self._first == 1:
            return self._of_two(torch.sigmoid(output), label, group)
        columns = [self._of_label.gradient(output, label)]
        for labels, logits, own in self._parts(output, group):
            chances = softmax_by_row(functional.pad(logits, (1, 0)))[:, 1:]
            columns.append((chances - own) * within(labels, label).unsqueeze(1))
        return torch.cat(columns, dim=1)

    def _of_two(self, chances: Tensor, label: Tensor, group: Tensor) -> Tensor:
        """Turn chances of two classes and groups, a column for each logit, into the gradient."""
        chances[:, 0].sub_(label)
        for place, labels in enumerate(self._heads, start=1):
            column = chances[:, place].sub_(group)
            if len(labels) == 1:
                column.mul_(within(labels, label))
        return chances

    def _parts(
        self, output: Tensor, group: Tensor
    ) -> Iterator[tuple[tuple[int, ...], Tensor, Tensor]]:
        """Labels, logits and one-hot groups of each head."""
        width = self._n_groups - 1
        codes = torch.arange(1, self._n_groups, dtype=output.dtype, device=output.device)
        own = (group.unsqueeze(1) == codes).to(output.dtype)
        for place, labels in enumerate(self._heads):
            first = self._first + place * width
            yield labels, output[:, first : first + width], own


class Chances(OfEachRow):
    """Outputs of a net in float64: gains of the answers, then P(a=g, y=l | x).

    The gain is ``2 (eta - threshold)`` of the second of two classes, else the chance of each class.
    The chances of groups and labels follow for each g, for each l.

    `module`: returns the logits. `rates`: those that are compared; what none of them needs is 0.
    """

    def __init__(
        self, module: nn.Module, rates: Rates, n_groups: int, threshold: float = 0.5
    ) -> None:
        super().__init__()
        self.module = module
        self._heads, self._n_classes = rates.heads, rates.n_answers
        self._first = rates.n_label_logits
        self._n_groups = n_groups
        self._twice = 2.0 * threshold

    def forward(self, X: Tensor) -> Tensor:
        """Return chances of rows, shape (B, n_gains + n_groups * n_classes)."""
        logits = self.module(X)
        with elementwise():
            logits = logits.double()
            if self._first == 1:
                eta = torch.sigmoid(logits[:, 0])
                of_labels, gains = [1.0 - eta, eta], [2.0 * eta - self._twice]
            else:
                of_labels = gains = _softmax([*logits[:, : self._first].unbind(1)])
            nothing = torch.zeros_like(of_labels[0])
            joint = [[nothing] * self._n_classes for _ in range(self._n_groups)]
            width = self._n_groups - 1
            for place, labels in enumerate(self._heads):
                own = logits[:, self._first + place * width :].unbind(1)[:width]
                for group, chance in enumerate(_softmax([nothing, *own])):
                    for label in labels:
                        joint[group][label] = of_labels[label] * chance
            return torch.stack([*gains, *(part for group in joint for part in group)], dim=1)


def _softmax(columns: list[Tensor]) -> list[Tensor]:
    """Softmax column by column: how a sum within a row is ordered must not depend on its place."""
    largest = columns[0]
    for column in columns[1:]:
        largest = torch.maximum(largest, column)
    powers = [torch.exp(column - largest) for column in columns]
    total = sum(powers[1:], powers[0])
    return [power / total for power in powers]


class Scores(nn.Module):
    """Scores that decide about a row, in float64: the gains, then the costs of the answers.

    Of two classes, those of the second: ``2 (eta - threshold)`` and ``s``.

    `chances`: what the net says. `direction`: see `costs_of`.
    """

    def __init__(self, chances: Chances, direction: Floats) -> None:
        super().__init__()
        self.chances = chances
        by_answer = costs_of(direction)[..., 1:] if direction.ndim == 2 else direction
        self._costs = by_answer.reshape(-1, by_answer.shape[-1]).T.tolist()

    def forward(self, X: Tensor) -> Tensor:
        """Return the scores of rows, shape (B, 2) for two classes, else (B, 2 * n_answers)."""
        chances = self.chances(X)
        with elementwise():
            columns: Sequence[Tensor] = chances.unbind(1)
            n, scores = len(self._costs), []
            for costs in self._costs:
                score = torch.zeros_like(columns[0])
                for cost, chance in zip(costs, columns[n:], strict=True):
                    if cost != 0.0:
                        score = score + cost * chance
                scores.append(score)
            return torch.stack([*columns[:n], *scores], dim=1)
