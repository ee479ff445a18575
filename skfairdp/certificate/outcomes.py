"""Rates of decisions and of errors by group, from counts that are bought anyway."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.bounds.binomial_cells import clopper_pearson
from skfairdp.fairness.bounds.noisy_counts import NoisyCells, private_rate_intervals
from skfairdp.fairness.guarantee import group_text
from skfairdp.foundation.figures import rounded_down, rounded_up
from skfairdp.privacy.accounting.serialization import label_from_json, label_to_json

LEVEL = 0.95
# Name of a measure, and the cells (label, answer) of its successes and of its other trials; the
# third label stands for those that no class is, where there are such rows.
MEASURES: dict[str, tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]] = {
    "gets the positive outcome": (((0, 1), (1, 1), (2, 1)), ((0, 0), (1, 0), (2, 0))),
    "positive label, gets it (true-positive rate)": (((1, 1),), ((1, 0),)),
    "other label, gets it (false-positive rate)": (((0, 1),), ((0, 0),)),
    "decided as labelled (accuracy)": (((0, 0), (1, 1)), ((0, 1), (1, 0))),
}


@dataclass(frozen=True)
class OutcomeRate:
    """A rate of one group, with the interval that holds together with all others."""

    measure: str
    group: str
    rate: float | None
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of JSON types, with the figures as they are printed."""
        rate = None if self.rate is None else round(self.rate, 3)
        ends = {"low": float(rounded_down(self.low)), "high": float(rounded_up(self.high))}
        return vars(self) | {"rate": rate} | ends


@dataclass(frozen=True)
class Outcomes:
    """Held-out rows by group, label and answer, where labels and answers are two each.

    `counts`: by group, label (the positive one second; others that no class is, where rows are
    protected, last) and answer. `count_epsilon`: of the noise in each count; None without noise.
    """

    groups: tuple[Hashable, ...]
    counts: tuple[tuple[tuple[float, float], ...], ...]
    count_epsilon: float | None = None

    def __post_init__(self) -> None:
        table = np.asarray(self.counts, dtype=np.float64)
        known = table.ndim == 3 and table.shape[0] == len(self.groups) and table.shape[1] in (2, 3)
        if not known or table.shape[2] != 2 or not np.isfinite(table).all():
            raise ValueError("'outcomes' must hold counts of each group, label and answer.")
        if self.count_epsilon is None and table.min() < 0:
            raise ValueError("'outcomes' holds negative counts, and no noise that explains them.")
        plain = tuple(tuple((float(a), float(b)) for a, b in of_group) for of_group in table)
        object.__setattr__(self, "counts", plain)

    @classmethod
    def of_table(cls, groups: Sequence[Hashable], table: NDArray, epsilon: float | None) -> Self:
        return cls(tuple(groups), tuple(map(tuple, table.tolist())), epsilon)

    @cached_property
    def rates(self) -> tuple[OutcomeRate, ...]:
        """Every measure of every group; all intervals hold together, with 95 %."""
        return tuple(self._rates())

    def _rates(self) -> Iterator[OutcomeRate]:
        error = (1.0 - LEVEL) / (len(MEASURES) * len(self.groups))
        table = np.asarray(self.counts)
        for name, cells_of in MEASURES.items():
            successes, failures = (
                [cell for cell in cells if cell[0] < table.shape[1]] for cells in cells_of
            )
            hits, misses = (
                np.sum([table[:, label, answer] for label, answer in cells], axis=0)
                for cells in (successes, failures)
            )
            low, high = self._ends(hits, misses, len(successes), len(failures), error)
            for place, group in enumerate(self.groups):
                rows = hits[place] + misses[place]
                rate = None if rows <= 0 else min(max(float(hits[place] / rows), 0.0), 1.0)
                ends = float(low[place]), float(high[place])
                yield OutcomeRate(name, group_text(group), rate, *ends)

    def _ends(
        self, hits: Any, misses: Any, of_hits: int, of_misses: int, error: float
    ) -> tuple[NDArray, NDArray]:
        if self.count_epsilon is None:
            low, high = clopper_pearson(hits, misses, error / 2.0)
            return np.asarray(low), np.asarray(high)
        chosen, others = (np.rint(each).astype(np.int64)[None] for each in (hits, misses))
        cells = NoisyCells(chosen, others, np.array([of_hits]), np.array([of_misses]))
        ends = private_rate_intervals(cells, self.count_epsilon, confidence_level=1.0 - error)
        return ends[0][0], ends[1][0]

    def total(self, label_known: bool) -> float:
        """Number of rows that are counted; with noise, about."""
        return math.fsum(
            sum(of_label)
            for of_group in self.counts
            for of_label in (of_group[:2] if label_known else of_group)
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "groups": [label_to_json(group) for group in self.groups],
            "counts": [[list(of_label) for of_label in of_group] for of_group in self.counts],
            "count_epsilon": self.count_epsilon,
        }

    @classmethod
    def from_dict(cls, document: Any) -> Self:
        groups = tuple(map(label_from_json, document["groups"]))
        counts = tuple(tuple(map(tuple, of_group)) for of_group in document["counts"])
        return cls(groups, counts, document["count_epsilon"])
