"""Scores of the optimal fair classifier: what a net learns for it, and what it decides by.

For two groups the rule is ``2 eta(x) - 1 - multiplier * s(x) > 0`` with

    s(x) = sum_l c_l P(y=l | x) (P(a=1 | y=l, x) - share),

where c_l says how selecting a person of label l moves the rate that is compared, and `share` is
the second group's share of the trials of that rate: see ``docs/theory/fair_path.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from skfairdp.engine.objectives import Objective
from skfairdp.fairness.notions import get_notion

__all__ = ["ONE_MULTIPLIER", "Rate", "Scores", "ScoresObjective"]

# Notions that compare one rate: for two groups, one multiplier.
ONE_MULTIPLIER = ("demographic_parity", "equal_opportunity", "accuracy_parity")


@dataclass(frozen=True)
class Rate:
    """The one rate of a notion, linear in who is selected.

    With n the records of a group by label and S those that are selected, the rate is
    ``(selected @ S + offset @ n) / (trials @ n)``.

    Parameters
    ----------
    selected, offset, trials : ndarray of float64, shape (2,)
        Weights of the labels, negative and positive.
    """

    selected: NDArray[np.float64]
    offset: NDArray[np.float64]
    trials: NDArray[np.float64]

    @classmethod
    def of(cls, notion: str) -> Rate:
        """Read off a notion's (label x prediction) table."""
        (stratum,) = get_notion(notion).strata((0, 1))
        successes = stratum.successes.astype(np.float64)
        trials = (stratum.successes | stratum.failures)[:, 1].astype(np.float64)
        return cls(successes[:, 1] - successes[:, 0], successes[:, 0], trials)

    def trials_of(self, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Trials of each group among (group, label) sizes; at least one, as sizes are noisy."""
        return np.maximum(sizes @ self.trials, 1.0)

    def share_of(self, sizes: NDArray[np.float64]) -> float:
        """The second group's share of the trials."""
        first, second = self.trials_of(sizes)
        return float(second / (first + second))

    @property
    def heads(self) -> tuple[tuple[int, ...], ...]:
        """Labels that each logit of the group is learned from.

        Labels of one weight share a logit; those without weight have none.
        """
        weights = dict.fromkeys(float(w) for w in self.selected if w != 0.0)
        return tuple(tuple(label for label in (0, 1) if self.selected[label] == w) for w in weights)

    @property
    def n_logits(self) -> int:
        """One for the label, and those of the group."""
        return 1 + len(self.heads)


class ScoresObjective(Objective):
    """Sum of the log losses of the label and, among the labels of each head, of the group.

    The targets are the label and the group's code, both 0 or 1. A record's loss is one sum,
    so its gradient is clipped once.

    Parameters
    ----------
    rate : Rate
        Says which heads there are.
    """

    def __init__(self, rate: Rate) -> None:
        self._heads = rate.heads

    def __call__(self, output: Tensor, *targets: Tensor) -> Tensor:
        target, mask = self._columns(output, *targets)
        losses = functional.binary_cross_entropy_with_logits(output, target, reduction="none")
        return (losses * mask).sum(dim=1)

    def gradient(self, output: Tensor, *targets: Tensor) -> Tensor:
        target, mask = self._columns(output, *targets)
        return torch.sigmoid(output).sub_(target).mul_(mask)

    def _columns(self, output: Tensor, *targets: Tensor) -> tuple[Tensor, Tensor]:
        label, group = (target.to(output.dtype) for target in targets)
        within = [torch.ones_like(label)]
        for labels in self._heads:
            within.append(
                within[0] if len(labels) == 2 else label if labels == (1,) else 1.0 - label
            )
        target = torch.stack([label, *[group] * len(self._heads)], dim=1)
        return target, torch.stack(within, dim=1)


class Scores(nn.Module):
    """What decides about a row: the columns ``2 eta - 1`` and ``s``, in float64.

    Parameters
    ----------
    module : torch.nn.Module
        Returns the logits.
    rate : Rate
        Rate that is compared.
    share : float
        The second group's share of its trials.
    """

    def __init__(self, module: nn.Module, rate: Rate, share: float) -> None:
        super().__init__()
        self.module = module
        self._rate = rate
        self._share = share

    def forward(self, X: Tensor) -> Tensor:
        """Return the scores of rows, shape (B, 2)."""
        chances = torch.sigmoid(self.module(X).double())
        of_label = torch.stack([1.0 - chances[:, 0], chances[:, 0]], dim=1)
        score = torch.zeros_like(chances[:, 0])
        for place, labels in enumerate(self._rate.heads, start=1):
            weight = float(self._rate.selected[labels[0]])
            within = 1.0 if len(labels) == 2 else of_label[:, labels[0]]
            score = score + weight * within * (chances[:, place] - self._share)
        return torch.stack([2.0 * chances[:, 0] - 1.0, score], dim=1)
