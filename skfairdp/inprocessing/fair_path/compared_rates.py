"""Rates of a notion as linear functions of who is selected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skfairdp.fairness.notions import get_notion
from skfairdp.inprocessing.rates.constraints import Floats


@dataclass(frozen=True)
class Rates:
    """The rates of a notion, linear in who is selected.

    With n the records of a group by label and S those that are selected, a rate is
    ``(selected @ S + offset @ n) / (trials @ n)``.

    `selected`, `offset`, `trials` (n_rates, 2): weights of the labels, negative and positive; a
    label is selected for one rate at most. `names`: what each rate is conditioned on; empty where
    on nothing.
    """

    selected: Floats
    offset: Floats
    trials: Floats
    names: tuple[str, ...]

    @classmethod
    def of(cls, notion: str) -> Rates:
        """Read off a notion's (label x prediction) tables."""
        strata = get_notion(notion).strata((0, 1))
        successes = np.array([stratum.successes for stratum in strata], dtype=np.float64)
        trials = np.array([(s.successes | s.failures)[:, 1] for s in strata], dtype=np.float64)
        selected = successes[:, :, 1] - successes[:, :, 0]
        return cls(selected, successes[:, :, 0], trials, tuple(s.name for s in strata))

    def trials_of(self, sizes: Floats) -> Floats:
        """Trials of each rate and group among (group, label) sizes; at least one, as sizes are
        noisy.
        """
        return np.maximum(self.trials @ sizes.T, 1.0)

    def levels_of(self, decided: Floats) -> Floats:
        """Rates (n_rates, n_groups) in a table (n_groups, 2, 2) by group, label and decision."""
        sizes = decided.sum(axis=2)
        successes = self.selected @ decided[:, :, 1].T + self.offset @ sizes.T
        return np.asarray(successes / self.trials_of(sizes))

    def direction(self, sizes: Floats) -> Floats:
        """Cost of selecting a record of each (group, label), for two groups and one rate."""
        first, second = self.trials_of(sizes)[0]
        share = second / (first + second)
        return np.outer([-share, 1.0 - share], self.selected[0])

    @property
    def heads(self) -> tuple[tuple[int, ...], ...]:
        """Labels within which each softmax over groups is learned.

        Labels of one weight in one rate share it; those without weight have none.
        """
        kinds = dict.fromkeys((r, w) for r, row in enumerate(self.selected) for w in row if w)
        return tuple(
            tuple(label for label in (0, 1) if self.selected[rate, label] == weight)
            for rate, weight in kinds
        )

    def n_logits(self, n_groups: int) -> int:
        """One for the label, and those of the groups after the first in each softmax."""
        return 1 + len(self.heads) * (n_groups - 1)
