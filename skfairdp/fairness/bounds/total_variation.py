"""Total variation distance between the codes of groups: a limit on every predictor from codes."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.bounds.binomial_cells import BinomialCell
from skfairdp.fairness.bounds.binomial_pairs import CellPair


def total_variation(counts: NDArray[np.int64]) -> float:
    """Largest observed total variation of two groups, by counts (n_strata, n_codes, n_groups)."""
    apart = [0.0]
    for stratum in counts:
        seen = stratum[:, stratum.sum(axis=0) > 0]
        pairs = itertools.combinations((seen / seen.sum(axis=0)).T, 2)
        apart += [float(np.abs(one - other).sum() / 2.0) for one, other in pairs]
    return max(apart)


def total_variation_bound(counts: NDArray[np.int64], *, confidence_level: float = 0.95) -> float:
    """Upper confidence bound on the largest total variation; 1 where a group has no rows.

    The error is split over neither events nor pairs nor strata: the worst of them is a fixed one.
    """
    return max(
        largest_event_bound(one, other, 1.0 - confidence_level)
        for stratum in counts
        for one, other in itertools.combinations(stratum.T, 2)
    )


def largest_event_bound(first: NDArray, second: NDArray, alpha: float) -> float:
    """Upper confidence bound on the total variation between two laws, from counts of each value.

    That is how much more probable an event, a set of values, can be under one of them. It fails
    with probability `alpha` at most, which is not split over the events: the worst is a fixed one.
    """
    n, m = int(first.sum()), int(second.sum())
    if not n or not m:
        return 1.0
    events = np.zeros((1, 2), dtype=np.int64)
    for counts in np.column_stack([first, second]):
        events = np.concatenate([events, events + counts])
    # The empty event and the whole have no difference.
    return bound_of_events(np.unique(events[1:-1], axis=0), n, m, alpha)


def bound_of_events(events: NDArray, n: int, m: int, alpha: float, known: float = 0.0) -> float:
    """Upper confidence bound on the largest difference of two probabilities among some events.

    It fails with probability `alpha` at most, whatever the number of events, if it is not below
    `known`. `events`: counts among n rows and among m rows, shape (n_events, 2).
    """
    likely = standing_for(events[[np.argmax(events @ (1.0 / n, -1.0 / m))]], n, m, alpha)
    best, open_ = known, [events]
    if not (best > 0.0 and best >= likely.observed and likely.excludes(best)):
        best = max(best, likely.bound())
    while open_ and best < 1.0:
        some = open_.pop()
        pair = standing_for(some, n, m, alpha)
        if best >= pair.observed and pair.excludes(best):
            continue
        if len(some) == 1:
            best = max(best, pair.bound())
        else:
            side = int(np.argmax(np.ptp(some, axis=0) / (n, m)))
            open_ += np.array_split(some[np.argsort(some[:, side])], 2)
    return best


def standing_for(events: NDArray, n: int, m: int, alpha: float) -> CellPair:
    """A pair of cells that excludes no more than each of some events does.

    Its outcomes are all that come no later than that of an event, and it looks at all rates that
    the pair of an event looks at, so the largest probability is no smaller than any of theirs.
    """
    (least, lowest), (most, highest) = events.min(axis=0), events.max(axis=0)

    def cells(hits: int, others: int) -> tuple[BinomialCell, BinomialCell]:
        return BinomialCell(int(hits), n), BinomialCell(int(others), m)

    return CellPair(*cells(most, lowest), alpha, cells(least, highest))
