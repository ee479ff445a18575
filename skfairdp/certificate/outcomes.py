"""Outcomes of groups, and accuracy of a model, from counts of held-out rows."""

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
from skfairdp.foundation.figures import label_from_json, label_to_json, rounded_down, rounded_up

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
            raise ValueError("'outcomes' holds negative counts, which only noisy counts can be.")
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


# A model that errs for at most this share of people, and this many times less often than the most
# frequent label, is rarely possible without a feature that holds the answer.
HARDLY_EVER, FEWER_MISTAKES = 0.05, 5.0
HARDLY_EVER_WRONG = (
    "HARDLY EVER WRONG: few questions about people can be answered so well. Look for a feature "
    "that copies the outcome, or that is known only after it, and train without it."
)


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of a model, and of the most frequent label for all rows, as counts.

    Examples
    --------
    >>> from skfairdp.certificate.outcomes import Accuracy
    >>> print(Accuracy(rows=1000, right=810, constant=760, error=15.0, noisy=False))
    Accuracy on the held-out rows: 0.810; with the most frequent label for everybody: 0.760.
    """

    rows: float
    right: float
    constant: float
    error: float  # standard error of the difference of the two
    noisy: bool
    # Counts by label and answer, where there are two of each, the positive one last.
    table: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        numbers = (self.rows, self.right, self.constant, self.error)
        if not all(math.isfinite(x) for x in numbers) or self.rows <= 0 or self.error < 0:
            raise ValueError("'accuracy' must hold finite numbers, with rows above 0.")
        if not isinstance(self.noisy, bool):
            raise ValueError("'noisy' of 'accuracy' must be true or false.")
        least = 0.0 if self.noisy else abs(self.right - self.constant)
        counted = sorted((0.0, self.right, self.constant, self.rows))
        follows = self.noisy or (counted[0] == 0.0 and counted[-1] == self.rows)
        if self.table is not None:
            counts = np.array(self.table, dtype=np.float64)
            follows = counts.shape == (2, 2) and bool(self.noisy or counts.min() >= 0)
            if follows:
                object.__setattr__(self, "table", tuple(map(tuple, counts.tolist())))
                found = (counts.sum(), counts.trace(), counts.sum(axis=1).max())
                most = int(counts.sum(axis=1).argmax())
                least, follows = _differ(counts, most), bool(np.all(np.isclose(numbers[:3], found)))
        # Who states less than the error of the counts alone calls a model better than it is.
        if not follows or self.error < (1.0 - 1e-9) * math.sqrt(max(least, 1.0)):
            raise ValueError("'accuracy' does not follow from its counts.")

    @classmethod
    def of_table(cls, table: NDArray, noise_variance: float = 0.0) -> Self | None:
        """Count (group x label x prediction), with noise in each entry; None without rows."""
        counts, n = table.sum(axis=0), len(table[0])
        if counts.shape[0] < 2 or counts.sum() <= 0:
            return None
        of_labels, right = counts.sum(axis=1), float(counts.trace())
        noise = len(table) * 2 * (n - 1) * noise_variance
        errors = [math.sqrt(max(_differ(counts, label), 1.0) + noise) for label in range(n)]
        most = int(of_labels.argmax())
        constant, error = float(of_labels[most]), errors[most]
        if right > constant:
            # Which label is the most frequent is read off the same rows: the model must beat each.
            error = (right - constant) / float(((right - of_labels) / errors).min())
        of_two = None if counts.shape != (2, 2) else counts.tolist()
        return cls(float(counts.sum()), right, constant, error, noise_variance > 0.0, of_two)

    @property
    def no_better(self) -> bool:
        """Whether the model is not shown to beat the constant answer, at 95 %."""
        return self.right - self.constant < 1.645 * self.error

    @property
    def hardly_ever_wrong(self) -> bool:
        """Whether the model answers so well that a feature seems to hold the answer."""
        wrong = self.rows - self.right
        few = min(HARDLY_EVER * self.rows, (self.rows - self.constant) / FEWER_MISTAKES)
        return wrong <= few and not self.no_better

    @property
    def measures(self) -> tuple[tuple[str, float | None, float | None], ...]:
        """Name of a measure, its value for the model, and for the constant answer."""
        found = [("accuracy", _share(self.right, self.rows), _share(self.constant, self.rows))]
        if self.table is not None:
            (negative, false), (missed, positive) = self.table
            base = _share(missed + positive, self.rows)
            recalls = _share(positive, missed + positive), _share(negative, negative + false)
            balanced = None if None in recalls else sum(recalls) / 2.0  # type: ignore[arg-type]
            chosen, refused = _share(positive, positive + false), _share(missed, missed + negative)
            found += [
                ("balanced accuracy (the AUC of yes or no)", balanced, 0.5),
                ("positive labels among positive answers", chosen, base),
                ("positive labels among negative answers", refused, base),
                ("positive labels among all (base rate)", base, base),
            ]
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of JSON types; files of earlier versions have no table."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def __str__(self) -> str:
        (_, model, constant), *_ = self.measures
        worse = self.constant - self.right >= 1.645 * self.error
        why = "it is worse." if worse else "the difference is within its error."
        said = [
            f"{'Noisy accuracy' if self.noisy else 'Accuracy'} on the held-out rows: {model:.3f}; "
            f"with the most frequent label for everybody: {constant:.3f}."
        ]
        if self.no_better:
            said.append(f"NO BETTER THAN A CONSTANT: {why}")
        if self.hardly_ever_wrong:
            said.append(HARDLY_EVER_WRONG)
        return " ".join(said)


def _differ(counts: NDArray, label: int) -> float:
    """Rows that either the model or one label for everybody gets right, and not both.

    `counts`: by label and answer.
    """
    return float(counts.trace() + counts[label].sum() - 2.0 * counts[label, label])


def _share(part: float, whole: float) -> float | None:
    return min(max(float(part / whole), 0.0), 1.0) if whole > 0 else None
