"""Exact unconditional upper bounds on the largest difference of binomial rates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from skfairdp.fairness.bounds.binomial_cells import BinomialCell
from skfairdp.fairness.bounds.binomial_pairs import CellPair

__all__ = ["largest_gap_bound", "pair_bound"]


def pair_bound(u: BinomialCell, v: BinomialCell, alpha: float) -> float:
    """Upper confidence bound on the rate of one cell minus that of another, where positive.

    Both are observed independently. `alpha`: in (0, 1), the probability that the bound fails, at
    most, whatever the two rates are.

    References
    ----------
    Buehler, "Confidence intervals for the product of two binomial parameters", JASA 52 (1957);
    Chan and Zhang, "Test-based exact confidence intervals for the difference of two binomial
    proportions", Biometrics 55 (1999); Newcombe, "Interval estimation for the difference between
    independent proportions", Statistics in Medicine 17 (1998).

    Examples
    --------
    >>> from skfairdp.fairness.bounds.binomial_cells import BinomialCell
    >>> from skfairdp.fairness.bounds.exact_gap import pair_bound
    >>> round(pair_bound(BinomialCell(9, 30), BinomialCell(9, 30), 0.05), 3)
    0.2
    """
    return CellPair(u, v, alpha).bound()


def largest_gap_bound(strata: Sequence[Sequence[BinomialCell]], alpha: float) -> float:
    """Upper confidence bound on the largest difference of rates within any stratum.

    It fails with probability `alpha` at most, in (0, 1), which is not split over pairs: the pair
    with the largest true difference is a fixed one.

    Examples
    --------
    >>> from skfairdp.fairness.bounds.binomial_cells import BinomialCell
    >>> from skfairdp.fairness.bounds.exact_gap import largest_gap_bound
    >>> cells = [BinomialCell(300, 1000), BinomialCell(250, 1000), BinomialCell(270, 1000)]
    >>> round(largest_gap_bound([cells], 0.05), 4)
    0.0828
    """
    pairs = [CellPair(u, v, alpha) for cells in strata for u, v in itertools.permutations(cells, 2)]
    best = 0.0
    for pair in sorted(pairs, key=lambda entry: -entry.place):
        if not (best > 0.0 and best >= pair.observed and pair.excludes(best)):
            best = max(best, pair.bound())
        if best >= 1.0:
            break
    return best
