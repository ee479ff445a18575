"""Rates of a notion as linear functions of the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.notions import get_notion
from skfairdp.inprocessing.fair_path.envelope import costs_of
from skfairdp.inprocessing.rates.constraints import Floats


@dataclass(frozen=True, eq=False)
class Rates:
    """The rates of a notion, linear in the answers.

    With n the records of a group by label and S those by label and answer, a rate is
    ``(sum(selected * S) + offset @ n) / (trials @ n)``.

    `successes` (n_rates, n_labels, n_answers): which (label, answer) pairs are successes of a rate;
    a pair is one of one rate at most. `trials` (n_rates, n_labels): weights of the labels. `names`:
    what each rate is conditioned on; empty where on nothing.
    """

    successes: NDArray[np.bool_]
    trials: Floats
    names: tuple[str, ...]

    @classmethod
    def of(cls, notion: str, classes: Sequence[Any] = (0, 1)) -> Rates:
        """Read off a notion's (label x prediction) tables."""
        strata = get_notion(notion).strata(classes)
        successes = np.array([stratum.successes for stratum in strata])
        trials = np.array([(s.successes | s.failures)[:, 1] for s in strata], dtype=np.float64)
        return cls(successes, trials, tuple(s.name for s in strata))

    @property
    def n_answers(self) -> int:
        """Number of answers: of classes, or of points of a grid."""
        return self.successes.shape[2]

    @cached_property
    def offset(self) -> Floats:
        """Successes of the first answer, (n_rates, n_labels)."""
        return self.successes[:, :, 0].astype(np.float64)

    @cached_property
    def selected(self) -> Floats:
        """Contribution of other answers, shape of `successes`; zero for the first."""
        return self.successes.astype(np.float64) - self.offset[:, :, None]

    @cached_property
    def rate_of(self) -> NDArray[np.int64]:
        """Rate that a (label, answer) pair is a success of, (n_labels, n_answers); -1 for none."""
        return np.where(self.successes.any(axis=0), self.successes.argmax(axis=0), -1)

    @cached_property
    def cells(self) -> NDArray[np.int64]:
        """Cell of a table that each (label, answer) pair is counted in, (n_labels, n_answers).

        Of more than two answers, pairs that are equal for all rates, and are both right or both
        wrong, are counted in the first of them: fewer cells carry less noise.
        """
        n_labels, n_answers = self.successes.shape[1:]
        own = np.arange(n_labels * n_answers)
        if n_answers > 2:
            right = np.arange(n_labels)[:, None] == np.arange(n_answers)
            trials = np.broadcast_to(self.trials[..., None], self.successes.shape)
            facts = np.concatenate([self.successes, trials, right[None]]).reshape(-1, len(own))
            _, first, places = np.unique(facts, axis=1, return_index=True, return_inverse=True)
            own = first[places.ravel()]
        return own.reshape(n_labels, n_answers)

    @cached_property
    def counted(self) -> Floats:
        """Whether, as 0 or 1, a pair has a cell of its own."""
        return (self.cells.ravel() == np.arange(self.cells.size)).reshape(self.cells.shape) * 1.0

    def n_entries(self) -> int:
        """Most entries of a table of changes that a record adds to.

        Its answer changes at most once less than there are answers. Each change leaves one and
        enters one; a rate is entered once, and left once.
        """
        changes = self.n_answers - 1
        rates = int((self.rate_of >= 0).sum(axis=1).max())
        return min(2 * rates, rates * changes, 2 * changes)

    @property
    def of_one_label(self) -> bool:
        """Whether there is one rate, among records of one label alone."""
        return len(self.trials) == 1 and np.count_nonzero(self.trials) == 1

    @cached_property
    def complete(self) -> bool:
        """Whether rates of one condition, which follow each other, add up to one."""
        by_condition = self.n_answers > 2 and len(self.names) % self.n_answers == 0
        return by_condition and bool((self.rate_of >= 0).all())

    def balanced(self, changed: Floats) -> Floats:
        """Take off a noisy table of changes (2, n_rates, ...) what rates add up to beyond zero."""
        if not self.complete:
            return changed
        by_condition = changed.reshape(2, -1, self.n_answers, *changed.shape[2:])
        return (by_condition - by_condition.mean(axis=2, keepdims=True)).reshape(changed.shape)

    @property
    def balanced_std(self) -> float:
        """Part of the noise's standard deviation that `balanced` leaves."""
        return math.sqrt(1.0 - 1.0 / self.n_answers) if self.complete else 1.0

    def trials_of(self, sizes: Floats) -> Floats:
        """Trials of each rate and group among (group, label) sizes; at least one, as sizes are
        noisy.
        """
        return np.maximum(self.trials @ sizes.T, 1.0)

    def successes_of(self, decided: Floats) -> Floats:
        """Successes (n_rates, n_groups) in a table by group, label and answer."""
        of_answers = np.tensordot(self.selected, decided, axes=([1, 2], [1, 2]))
        return np.asarray(of_answers + self.offset @ decided.sum(axis=2).T)

    def levels_of(self, decided: Floats) -> Floats:
        """Rates (n_rates, n_groups) in a table by group, label and answer."""
        return np.asarray(self.successes_of(decided) / self.trials_of(decided.sum(axis=2)))

    def direction(self, sizes: Floats) -> Floats:
        """Direction for two groups and one rate, see `plain`."""
        first, second = self.trials_of(sizes)[0]
        share = second / (first + second)
        return self.plain(np.multiply.outer(np.array([-share, 1.0 - share]), self.selected[0]))

    def dearer(self, direction: Floats) -> Floats:
        """Whether a success costs the second group of each pair more, as 1, or the first, as -1.

        Shape (n_rates * n_pairs,). The larger the multiplier, the fewer successes the dearer group
        has, if the scores are right. `direction`: see `costs_of`.
        """
        by_answer = costs_of(direction)
        relative = by_answer - by_answer.mean(axis=2, keepdims=True)
        costs = np.tensordot(self.successes, relative, axes=([1, 2], [1, 2]))
        costs = costs / self.successes.sum(axis=(1, 2))[:, None]
        first, second = np.array(list(combinations(range(len(direction)), 2))).T
        return np.where(costs[:, second] < costs[:, first], -1.0, 1.0).ravel()

    def plain(self, costs: Floats) -> Floats:
        """Costs (n_groups, n_labels, n_answers) as a direction; of two classes the second's."""
        return costs[..., 1] - costs[..., 0] if self.n_answers == 2 else costs

    @property
    def heads(self) -> tuple[tuple[int, ...], ...]:
        """Labels within which each softmax over groups is learned.

        Labels of the same successes share it; those without have none.
        """
        kinds: dict[bytes, list[int]] = {}
        for label, weights in enumerate(self.selected.swapaxes(0, 1)):
            if weights.any():
                kinds.setdefault(weights.tobytes(), []).append(label)
        return tuple(map(tuple, kinds.values()))

    @property
    def n_label_logits(self) -> int:
        """One for two classes, else one a class."""
        return 1 if self.n_answers == 2 else self.n_answers

    def n_logits(self, n_groups: int) -> int:
        """Those for the label, and those of the groups after the first in each softmax."""
        return self.n_label_logits + len(self.heads) * (n_groups - 1)
