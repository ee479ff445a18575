"""Demographic disparity of a table of answers: each group against all others together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from skfairdp.parameters import Number, check_arguments


def disparities(table: Sequence[Sequence[int]], ratio: Callable[[int, int], Any]) -> Iterator[Any]:
    """Γ of every cell, row by row.

    Γ(k, z) is the share of label k among the answers of group z, minus its share among
    those of all other groups together; 0 where either has none.

    `table` (n_groups, n_classes): answers. `ratio`: `operator.truediv` for floats,
    `fractions.Fraction` for exact values.
    """
    labels = [sum(column) for column in zip(*table, strict=True)]
    total = sum(labels)
    for row in table:
        own = sum(row)
        rest = total - own
        for count, of_all in zip(row, labels, strict=True):
            if own and rest:
                yield ratio(count, own) - ratio(of_all - count, rest)
            else:
                yield ratio(0, 1)


def excess_over(tolerance: Any, gaps: Sequence[Any]) -> Any:
    """Σ max(Γ − γ, 0) over some cells."""
    return sum((gap - tolerance for gap in gaps if gap > tolerance), 0 * tolerance)


def exact_tolerance(tolerance: float) -> Fraction:
    """γ as the decimal number that it prints as: 0.3 is 3/10."""
    return Fraction(repr(float(tolerance)))


def smallest_cold_start(tolerance: float) -> int:
    """⌈1/γ⌉, the shortest cold start that a gate over all cells allows."""
    check_arguments(locals(), tolerance=Number(0.0, 1.0))
    if tolerance == 0:
        raise ValueError(
            "tolerance=0 is not possible with rule='all_cells': it needs a cold_start of at least "
            "1/tolerance answers a group, and no number is enough. Use a small positive tolerance; "
            "0.01 needs cold_start=100."
        )
    return math.ceil(1 / exact_tolerance(tolerance))
