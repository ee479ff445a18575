"""Bounds and estimates that follow from the cells of predictions that a claim stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skfairdp.fairness.bounds.number_gaps import (
    NumberCells,
    distribution_gap_upper_bound,
    mean_gap,
    mean_gap_upper_bound,
)

if TYPE_CHECKING:
    from skfairdp.fairness.guarantee import FairnessGuarantee

CELLS = ("first", "last", "counts", "above")  # Inputs, as of `NumberCells`
# What `bound` of a certificate means for distributions, and for means.
TESTS = {"exact": "exact test", "difference": "Hoeffding's inequality"}
TESTS_OF_MEANS = TESTS | {"exact": "betting"}


def cells_of(claim: FairnessGuarantee) -> NumberCells:
    """Cells of predictions that a claim stores."""
    assert claim.derivation is not None
    inputs = claim.derivation.values
    cells = NumberCells(**{name: inputs[name] for name in CELLS})
    if cells.counts.shape[1] != len(claim.groups):
        raise ValueError("the claim must hold one count for each group in each cell")
    return cells


def _test(test: str) -> str:
    if test not in TESTS:
        raise ValueError(f"'test' must be one of {[*TESTS]}; got {test!r}")
    return test


def distributions(claim: FairnessGuarantee, level: float, *, test: str, **cells: Any) -> float:
    """Bound on the largest Kolmogorov-Smirnov distance."""
    known = cells_of(claim)
    return distribution_gap_upper_bound(known, confidence_level=level, bound=_test(test))


def observed_distance(claim: FairnessGuarantee) -> float | None:
    """Largest observed Kolmogorov-Smirnov distance."""
    return cells_of(claim).observed_gap


def means(
    claim: FairnessGuarantee, level: float, *, test: str, low: float, high: float, **cells: Any
) -> float:
    """Bound on the largest difference of means, as a share of the range."""
    if not low < high:
        raise ValueError("'low' must be below 'high'")
    known = cells_of(claim)
    return mean_gap_upper_bound(known, low, high, confidence_level=level, bound=_test(test))


def observed_means(claim: FairnessGuarantee) -> float | None:
    """Largest observed difference of means, as a share of the range."""
    assert claim.derivation is not None
    inputs = claim.derivation.values
    return mean_gap(cells_of(claim), inputs["low"], inputs["high"])
