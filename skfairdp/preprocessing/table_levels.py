"""Counts of a table's columns, and the levels that follow from noisy counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skfairdp.engine.table_release import Cells, TableRelease
from skfairdp.preprocessing.cells import MONTHS, WEEKDAYS, days
from skfairdp.preprocessing.levels import Categories, Intervals, Levels
from skfairdp.privacy.accounting.calibration import noise_multiplier_for
from skfairdp.privacy.plan import LEAST_MULTIPLIER, Plan, Segment
from skfairdp.privacy.sizes import Sizes

Floats = NDArray[np.float64]

# A grid for any number. Cells are octaves: a sign and a binary exponent from -126 to 127. Zero has
# its own cell, from 0 to 2**-126; the cells at both ends hold all that is larger than 2**128
# in size. What has rows is divided into eighths, and these into up to 64 parts, so that a year (all
# of them are in one octave) and a sum of money (over ten octaves) both get useful bins.
SMALLEST = 2.0**-126
_SIZES = np.ldexp(1.0, np.arange(-126, 129))
EDGES: Floats = np.concatenate([-_SIZES[:0:-1], [0.0], _SIZES])
N_CELLS = len(EDGES) + 1

# Probability that any cell without rows is divided.
_FALSE = 0.05
# Below this multiple of the noise a cell counts as empty, and no smaller part is made.
_EMPTY = 2.0

# Noise of the three counts that choose a kind, in that of a column's values: a 16th of its cost.
_KIND_NOISE = 4.0
# Dates are seen where their count is that many standard deviations of its noise.
_SEEN = 5.0
# Into how many parts a cell of one histogram is divided at most for the next one.
PARTS = (8, 64)
# As many texts may occur, and exact noise is proved for twice as many numbers of a step.
MOST_ROWS = 2**23 - 2**16
# Share of delta that is set aside for texts of one row.
_SHARE = 0.5


def table_plan(
    columns: Iterable[tuple[Hashable, str | None]], epsilon: float, delta: float
) -> Plan:
    """Plan the counts of columns, given by name and kind; None is a kind to be learned."""
    columns = list(columns)
    # All rows are counted; how many there are is not public, and nothing is divided by it.
    sizes = Sizes(("all",), (0,), "add-remove")
    without = ("number", "date")  # of categories
    texts = sum(kind not in without for _, kind in columns)

    def plan(sigma: float, *, shared: bool = False) -> Plan:
        """Plan with this noise; `shared`: columns of a kind share segments, at the same cost."""
        released: dict[str | None, list[Segment]] = {}
        segments: list[Segment] = []
        for name, kind in columns:
            if not (shared and kind in released):
                std = sigma * math.sqrt(3)
                parts = [
                    (f"{size} of {name}", 1.0, std) for size in ("octaves", "eighths", "parts")
                ]
                failure = 0.0 if kind in without else delta * _SHARE / texts
                released[kind] = [sizes.whole(*parts, failure=failure)]
                if kind is None:
                    kinds = f"kind of {name}", 1.0, sigma * _KIND_NOISE
                    released[kind].insert(0, sizes.whole(kinds))
            segments += released[kind]
        return sizes.plan(*segments, delta=delta, exact_noise=True)

    if math.isinf(epsilon):
        return plan(0.0)
    sigma = noise_multiplier_for(epsilon, delta, partial(plan, shared=True))
    planned = plan(max(sigma, LEAST_MULTIPLIER))  # a large epsilon is not used up
    planned.check_exact_noise(MOST_ROWS)
    return planned


def learned_levels(
    release: TableRelease, segments: Iterator[Segment], at: int, kind: str | None, n_bins: int
) -> tuple[Levels, ...]:
    """Release the levels of column `at`; three for a date: days, months and weekdays.

    `segments`: of `table_plan`, those of earlier columns used up.
    """
    if kind is None:
        counting = next(segments)
        (counts,) = release.histograms(counting, at, _kind, 3)
        numbers, texts, dates = counts.tolist()
        kind = "number" if numbers >= texts else "category"
        # More than noise: a column without values is no column of dates.
        if dates > max(numbers, texts, _SEEN * counting.blocks[0].noise_std):
            kind = "date"
    segment = next(segments)
    if kind == "category":
        return (Categories(tuple(release.frequent(segment, at))),)
    if kind == "number":
        return (_intervals(release, segment, at, n_bins, attrgetter("numbers")),)
    return _intervals(release, segment, at, n_bins, days), MONTHS, WEEKDAYS


def _kind(cells: Cells) -> NDArray[np.int64]:
    """0 for a number, 1 for a text, 2 for a date, -1 for a missing cell."""
    texts = np.where(np.isnan(days(cells)), 1, 2)
    return np.where(cells.texts >= 0, texts, np.where(np.isnan(cells.numbers), -1, 0))


def _intervals(
    release: TableRelease, segment: Segment, at: int, n_bins: int, read: Callable[[Cells], Floats]
) -> Intervals:
    edges, std = EDGES, segment.blocks[0].noise_std
    most = iter(PARTS)

    def then(counts: Floats) -> tuple[Any, int]:
        nonlocal edges
        edges = divided(edges, counts, std, next(most))
        return _between(edges, read), len(edges) + 1

    counts = release.histograms(segment, at, _between(EDGES, read), N_CELLS, then)[-1]
    return bins(edges, counts, std, n_bins)


def _between(edges: Floats, read: Callable[[Cells], Floats]) -> Any:
    def cell(cells: Cells) -> NDArray[np.int64]:
        numbers = read(cells)
        return np.where(np.isnan(numbers), -1, np.searchsorted(edges, numbers, side="right"))

    return cell


def divided(edges: Floats, counts: Floats, std: float, most: int) -> Floats:
    """Divide the cells that have rows, the finer the more they have.

    `edges` (m,): ascending. `counts` (m + 1,): noisy counts between them, and beyond both ends.
    `std`: standard deviation of their noise. `most`: largest number of parts, a power of two.
    Result: ascending edges of the parts. The rest lies between them, in as few cells as can be.
    """
    least = max(0.5, std * float(-ndtri(_FALSE / len(counts))))
    found: set[float] = set()
    for cell in np.flatnonzero(counts >= least).tolist():
        if 0 < cell < len(edges):  # what has both ends
            low, high = map(float, edges[cell - 1 : cell + 1])
            share = counts[cell] / (_EMPTY * std) if std else most
            smallest = max(abs(low), abs(high)) <= SMALLEST
            parts = 1 if smallest else 2 ** int(math.log2(min(most, max(1.0, share))))
            found.update((low + (high - low) * np.arange(parts + 1) / parts).tolist())
        elif len(edges):
            found.add(float(edges[min(cell, len(edges) - 1)]))
    return np.array(sorted(found))


def bins(edges: Floats, counts: Floats, std: float, n_bins: int) -> Intervals:
    """Join neighbouring cells to bins of about as many rows.

    `edges`, `counts`, `std`: as in `divided`. `n_bins`: a cell with at least the `n_bins`-th part
    of the rows is a bin of its own. What is left is cut into about as many more.
    """
    kept = np.where(counts >= max(_EMPTY * std, 0.5), counts, 0.0)
    light = kept[kept < float(kept.sum()) / n_bins]
    full, mass = float(light.sum()) / n_bins, 0.0
    chosen: list[float] = []
    for left, count in zip([-math.inf, *edges.tolist()], kept.tolist(), strict=True):
        if count == 0.0:
            continue
        if mass > 0.0 and (count >= full or mass + count / 2.0 >= full):
            chosen.append(left)
            mass = 0.0
        mass = math.inf if count >= full else mass + count
    return Intervals(tuple(chosen))
