"""A gate that lets an answer pass only if the answers so far stay even between groups.

Source: Confident & Fair-GNMax and its inference-time twin (Yaghini, Liu, Boenisch and
Papernot, 2023, "Learning to walk impartially on the Pareto frontier of fairness, privacy
and utility"), with a rule that looks at every cell and not only at the one just queried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from fractions import Fraction
from itertools import islice, product
from operator import truediv
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import COUNT, Choice, Number, check_values

# Floats decide wherever they are this far from a tie; closer than that, fractions do.
_TIE = 1e-9
_SETTINGS = ("n_groups", "n_classes", "tolerance", "cold_start", "rule")


class ParityGate:
    """Gate that counts answers by group and label, and refuses those that would break parity.

    Γ(k, z) is the share of label k among the answers of group z, minus its share among
    the answers of all other groups together; 0 where either has no answer yet.

    Parameters
    ----------
    n_groups : int
        Number of groups, at least 1. With one group nothing is compared and every
        answer passes.
    n_classes : int
        Number of labels, at least 2.
    tolerance : float in [0, 1]
        γ, the largest allowed Γ. Read as the decimal number that it prints as:
        0.3 means 3/10. "all_cells" needs more than 0.
    cold_start : int
        M, the number of answers of a group before it is gated. "all_cells" needs at
        least ⌈1/γ⌉.
    rule : {"all_cells", "queried_cell"}, default="all_cells"
        "all_cells": every answer passes until every group has M of them; then one passes iff
        afterwards the worst cell is at most γ, or the total excess Σ max(Γ − γ, 0) is strictly
        smaller than before. "queried_cell", as published, for comparison: an answer passes if its
        group has fewer than M, or if afterwards Γ of its own cell is strictly below γ; of three
        groups or more, other cells can drift without bound. See docs/theory/fairpate.md.

    Raises
    ------
    ValueError
        A parameter is outside what is allowed.

    Notes
    -----
    Both rules are decided without rounding error. The result depends on the order of the offers.
    A gate that can accept nothing (`stuck`) stays so for good. One thread at a time.

    Examples
    --------
    >>> from skfairdp.fairness.gate import ParityGate
    >>> gate = ParityGate(n_groups=2, n_classes=2, tolerance=0.5, cold_start=2)
    >>> [gate.offer(group, label) for group, label in [(0, 0), (0, 1), (1, 0), (1, 1)]]
    [True, True, True, True]
    >>> [gate.offer(0, 1) for _ in range(9)].count(True), gate.open, gate.stuck
    (9, True, False)
    >>> gate.counts.tolist(), round(gate.worst, 3)
    ([[1, 10], [1, 1]], 0.409)
    """

    def __init__(
        self,
        n_groups: int,
        n_classes: int,
        *,
        tolerance: float,
        cold_start: int,
        rule: Literal["all_cells", "queried_cell"] = "all_cells",
    ) -> None:
        check_values(
            n_groups=(n_groups, COUNT),
            n_classes=(n_classes, Number(2, integer=True)),
            tolerance=(tolerance, Number(0.0, 1.0)),
            cold_start=(cold_start, Number(0, integer=True)),
            rule=(rule, Choice(("all_cells", "queried_cell"))),
        )
        if rule == "all_cells" and cold_start < (needed := smallest_cold_start(tolerance)):
            raise ValueError(
                f"cold_start={cold_start} is too short for tolerance={tolerance:g} under "
                f"rule='all_cells': one answer more moves a rate by up to 1/cold_start, so at "
                f"least {needed} answers a group are needed: raise cold_start or the tolerance."
            )
        self.n_groups = int(n_groups)
        self.n_classes = int(n_classes)
        self.tolerance = float(tolerance)
        self.cold_start = int(cold_start)
        self.rule = rule
        self._counts = [[0] * self.n_classes for _ in range(self.n_groups)]
        self._now = 0.0  # excess of the present table

    @property
    def counts(self) -> NDArray[np.int64]:
        """Answers so far, a copy of shape (n_groups, n_classes)."""
        return np.array(self._counts, dtype=np.int64)

    @property
    def open(self) -> bool:
        """Whether the cold start is over: every group has `cold_start` answers."""
        return all(sum(row) >= self.cold_start for row in self._counts)

    @property
    def worst(self) -> float:
        """Largest Γ of the present table; 0 for an empty one."""
        return max(self._gaps())

    @property
    def excess(self) -> float:
        """Σ max(Γ − γ, 0) over the cells of the present table."""
        return self._now

    @property
    def stuck(self) -> bool:
        """Whether no answer of any group can pass, now and therefore ever."""
        cells = product(range(self.n_groups), range(self.n_classes))
        return not any(self.accepts(*cell) for cell in cells)

    def gaps(self) -> NDArray[np.float64]:
        """Compute Γ of every cell of the present table.

        Returns
        -------
        ndarray of float64, shape (n_groups, n_classes)
        """
        return np.array(self._gaps(), dtype=np.float64).reshape(self.n_groups, self.n_classes)

    def accepts(self, group: int, label: int) -> bool:
        """Whether an answer would pass now; changes nothing.

        Parameters
        ----------
        group : int
            Code of the group, from 0.
        label : int
            Code of the label, from 0.

        Returns
        -------
        bool
        """
        if not (0 <= group < self.n_groups and 0 <= label < self.n_classes):
            raise ValueError(
                f"group={group!r} and label={label!r} must be codes from 0 to "
                f"{self.n_groups - 1} and from 0 to {self.n_classes - 1}."
            )
        after = [row.copy() for row in self._counts]
        after[group][label] += 1
        if self.rule == "queried_cell":
            gap = next(islice(disparities(after, Fraction), group * self.n_classes + label, None))
            limit = exact_tolerance(self.tolerance)
            return sum(self._counts[group]) < self.cold_start or gap < limit
        return not self.open or self._improves(after)

    @completed_by(accepts)
    def offer(self, group: int, label: int) -> bool:
        """Count an answer and return True if it may pass; a refused one leaves the state alone."""
        if not self.accepts(group, label):
            return False
        self._counts[group][label] += 1
        self._now = excess_over(self.tolerance, self._gaps())
        return True

    @property
    def state(self) -> dict[str, Any]:
        """Settings and counts as JSON types; `restore` takes them back."""
        settings = {name: getattr(self, name) for name in _SETTINGS}
        return settings | {"counts": [row.copy() for row in self._counts]}

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Take back counts that a gate with the same settings had.

        Parameters
        ----------
        state : mapping
            A value of `state`, perhaps after a round trip through JSON.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            The settings differ from this gate's, or the counts are not a table of
            non-negative integers of its shape.
        """
        differing = [name for name in _SETTINGS if state.get(name) != getattr(self, name)]
        if differing:
            raise ValueError(
                f"The stored state belongs to a gate with another {' and '.join(differing)}; "
                "restore it in a gate with the same settings."
            )
        counts = np.asarray(state.get("counts"))
        shape = (self.n_groups, self.n_classes)
        if counts.shape != shape or counts.dtype.kind not in "iu" or (counts < 0).any():
            raise ValueError(f"counts must be non-negative integers of shape {shape}.")
        self._counts = counts.tolist()
        self._now = excess_over(self.tolerance, self._gaps())
        return self

    def copy(self) -> ParityGate:
        """Gate with the same settings and counts, independent of this one."""
        return deepcopy(self)

    def _gaps(self) -> list[float]:
        return list(disparities(self._counts, truediv))

    def _improves(self, after: list[list[int]]) -> bool:
        """All cells within γ afterwards, or less excess than now."""
        gaps = list(disparities(after, truediv))
        distance = max(gaps) - self.tolerance
        if distance < -_TIE:
            return True
        fall = self._now - excess_over(self.tolerance, gaps)
        if distance > _TIE and abs(fall) > _TIE:
            return fall > 0
        limit = exact_tolerance(self.tolerance)
        exact = (list(disparities(table, Fraction)) for table in (self._counts, after))
        now, then = (excess_over(limit, gaps) for gaps in exact)
        return then == 0 or then < now


def disparities(table: Sequence[Sequence[int]], ratio: Callable[[int, int], Any]) -> Iterator[Any]:
    """Γ of every cell of answers (n_groups, n_classes), row by row, by a division of integers."""
    labels = [sum(column) for column in zip(*table, strict=True)]
    total = sum(labels)
    for row in table:
        own = sum(row)
        rest = total - own
        for count, of_all in zip(row, labels, strict=True):
            compared = own and rest
            yield ratio(count, own) - ratio(of_all - count, rest) if compared else ratio(0, 1)


def excess_over(tolerance: Any, gaps: Sequence[Any]) -> Any:
    """Σ max(Γ − γ, 0) over some cells."""
    return sum((gap - tolerance for gap in gaps if gap > tolerance), 0 * tolerance)


def exact_tolerance(tolerance: float) -> Fraction:
    """γ as the decimal number that it prints as: 0.3 is 3/10."""
    return Fraction(repr(float(tolerance)))


def smallest_cold_start(tolerance: float) -> int:
    """⌈1/γ⌉, the shortest cold start that a gate over all cells allows."""
    check_values(tolerance=(tolerance, Number(0.0, 1.0)))
    if tolerance == 0:
        raise ValueError(
            "tolerance=0 is not possible with rule='all_cells': it needs a cold_start of at least "
            "1/tolerance answers a group. Use a small tolerance; 0.01 needs cold_start=100."
        )
    return math.ceil(1 / exact_tolerance(tolerance))
