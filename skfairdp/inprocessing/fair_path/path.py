"""Points of the frontier between accuracy and a gap, from released tables of counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.rates.constraints import TINY, Floats

# Where a path may start, fixed beforehand: edges from training quantiles would reveal rows.
# They are uniform in t = multiplier / (1 + |multiplier|), with 0 in the middle.
_PLACES = 511
_T = np.arange(-_PLACES, _PLACES + 1) / (_PLACES + 1.0)
MULTIPLIERS: Floats = _T / (1.0 - np.abs(_T))
# The table that finds the start is coarse, as noise on a prefix sum grows with their number: every
# 16th multiplier, 0 among them.
_STRIDE = 16
COARSE: Floats = MULTIPLIERS[_PLACES % _STRIDE :: _STRIDE]
# Multipliers of a path on either side of its middle.
SIDE = 127
# Where groups alone are private a direction is as long as it should be, and 1 is in the middle.
# Groups may be small there: less noise, and coarser.
AROUND_ONE: Floats = np.concatenate([np.arange(8) / 8.0, 9.0 / np.arange(9.0, 0.0, -1.0)])
# Chance that a gap is above the tolerance that is said to be kept; a fifth of it is for what
# standard errors leave out, which are of first order in the noise over a group's size.
ERROR = 0.1
# A point is passed where its gap keeps to the tolerance with this many standard errors to spare.
# Enough for one point that is fixed before its noise is drawn, and for no other: the walk starts
# where another release says.
MARGIN = float(ndtri(1.0 - 0.55 * ERROR))
# Such margins of two more walks, which answer where the first one cannot leave a start that
# corrects too much: from the start, and from no constraint outwards.
INWARD_MARGIN = float(ndtri(1.0 - 0.15 * ERROR))
OUTWARD_MARGIN = float(ndtri(1.0 - 0.1 * ERROR))


def around(start: float) -> Floats:
    """Multipliers of a path that starts in the middle, ascending, with 0 at one end.

    Result (2 * SIDE + 1,): uniform on each side in t = multiplier / (1 + |multiplier|). For a start
    of 0 it is in the middle.
    """
    if start < 0.0:
        return 0.0 - around(-start)[::-1]
    middle, steps = start / (1.0 + start), np.arange(1, SIDE + 1) / (SIDE + 1.0)
    below = middle * np.arange(SIDE) / SIDE if start > 0.0 else -steps[::-1]
    t = np.concatenate([below, [middle], middle + (1.0 - middle) * steps])
    multipliers = t / (1.0 - np.abs(t))
    multipliers[SIDE] = start
    return np.asarray(multipliers)


@dataclass(frozen=True)
class ReleasedPath:
    """Estimates at every multiplier; functions of released values alone.

    `rates`: what is compared. `multipliers` (2 * side + 1,): the points, ascending. `decided`
    (n_groups, n_labels, n_answers): released records of each (group, label, answer) at the
    multiplier in the middle, of some in the cell of another one (`Rates.cells`). `changed`
    (2, n_rates, n_groups, side): released prefix sums of how successes change along each side.
    `improved` (2, side): the same of right answers. `decided_std`: standard deviation of the noise
    of each entry of `decided`. `changed_stds`, `improved_stds` (side,): those of each prefix sum.
    `shared`: part of the noise that is taken off each group, all together being known. `start`:
    position in `multipliers` where a walk begins; must not depend on the noise of these tables, nor
    must `direction`: costs of answers along the path, as `costs_of` takes them.
    """

    rates: Rates
    multipliers: Floats
    decided: Floats
    changed: Floats
    improved: Floats
    decided_std: float
    changed_stds: Floats
    improved_stds: Floats
    shared: float = 0.0
    start: int = field(kw_only=True)
    direction: Floats = field(kw_only=True)

    @property
    def sizes(self) -> Floats:
        """Released number of records of each group and label."""
        return np.asarray(self.decided.sum(axis=2))

    @cached_property
    def levels(self) -> Floats:
        """Rates of each group at each multiplier, shape (n_rates, n_groups, n)."""
        r = self.rates
        before = r.successes_of(self.decided)[..., None]
        return (before + _along(self.changed)) / r.trials_of(self.sizes)[..., None]

    @cached_property
    def _loads(self) -> Floats:
        """What the noise of each table adds to the rates, to first order in it over the trials.

        Shape (n_noises, n_rates, n_groups, n). Groups share a part of it, that of all together
        being known.
        """
        r = self.rates
        # How a rate moves with a count of each label, of those with each answer in the middle.
        slopes = r.offset[..., None, None] - r.trials[..., None, None] * self.levels[:, None]
        of_answers = [
            (slopes + more[..., None, None]) * counted[:, None, None]
            for more, counted in zip(np.moveaxis(r.selected, 2, 0), self._counted.T, strict=True)
        ]
        of_decided = np.concatenate(of_answers, axis=1).swapaxes(0, 1) * self.decided_std
        of_path = np.broadcast_to(_outwards(self.changed_stds), of_decided.shape[1:])
        return np.concatenate([of_decided, of_path[None]]) / r.trials_of(self.sizes)[..., None]

    @property
    def _counted(self) -> Floats:
        """Cells of a group that carry noise: where all groups together are known, each pair's."""
        return self.rates.counted if self.shared == 0.0 else np.ones_like(self.rates.counted)

    @property
    def level_stds(self) -> Floats:
        """Standard errors of the rates."""
        return np.asarray(np.sqrt((self._loads**2).sum(axis=0) * (1.0 - self.shared)))

    @cached_property
    def differences(self) -> tuple[Floats, Floats]:
        """Signed gaps, and their standard errors: shape (n_rates * n_pairs, n)."""
        first, second = np.array(list(combinations(range(len(self.decided)), 2))).T
        gaps = self.levels[:, second] - self.levels[:, first]
        one, other = self._loads[:, :, first], self._loads[:, :, second]
        variances = (one**2 + other**2 - self.shared * (one - other) ** 2).sum(axis=0)
        shape = -1, len(self.multipliers)
        return gaps.reshape(shape), np.sqrt(variances).reshape(shape)

    def shared_variances(self, point: int) -> Floats:
        """Covariances, by the noise of `decided`, of the signed gaps with those at a point."""
        pairs = np.array(list(combinations(range(len(self.decided)), 2))).T
        loads = (self._loads[:-1][:, :, of_pair] for of_pair in pairs)
        products = sum((load * load[..., point, None]).sum(axis=0) for load in loads)
        return np.reshape(products, (-1, len(self.multipliers)))

    @property
    def gaps(self) -> Floats:
        """Largest difference of a rate between two groups."""
        return np.asarray(np.abs(self.differences[0]).max(axis=0))

    @property
    def gap_stds(self) -> Floats:
        """Standard error of that difference."""
        gaps, stds = self.differences
        return np.take_along_axis(stds, np.abs(gaps).argmax(axis=0)[None], axis=0)[0]

    @property
    def accuracies(self) -> Floats:
        """Share of right answers."""
        right = np.trace(self.decided, axis1=1, axis2=2).sum() + _along(self.improved)
        return np.asarray(right / self._total)

    @property
    def accuracy_stds(self) -> Floats:
        """Standard error of the accuracies."""
        n_groups, n_right = len(self.decided), np.trace(self._counted)
        each = n_right * n_groups * (1.0 - n_groups * self.shared) * self.decided_std**2
        of_wrong = self._counted.sum() / n_right - 1.0
        variances = each * (of_wrong * self.accuracies**2 + (1.0 - self.accuracies) ** 2)
        return np.asarray(np.sqrt(variances + _outwards(self.improved_stds) ** 2) / self._total)

    @property
    def _total(self) -> float:
        return max(float(self.decided.sum()), 1.0)

    @property
    def gap_bounds(self) -> Floats:
        """Upper bounds on the gaps of all points together, with an error of `ERROR`.

        A union over points, pairs, rates and signs, so that a choice after a look is covered.
        """
        gaps, stds = self.differences
        margin = -float(ndtri(0.8 * ERROR / (2.0 * gaps.size)))
        return np.asarray((np.abs(gaps) + margin * stds).max(axis=0))

    @cached_property
    def way(self) -> NDArray[np.int64]:
        """Points from the start to no constraint, as positions in `multipliers`."""
        free = int(np.searchsorted(self.multipliers, 0.0))
        step = 1 if self.start <= free else -1
        return np.arange(self.start, free + step, step)

    @cached_property
    def under(self) -> Floats:
        """Gaps on the way, positive where too little is corrected, if the scores are right.

        Shape (n_rates * n_pairs, n_way). Which sign this is follows from the direction.
        """
        signs = self.rates.dearer(self.direction)
        outwards = -1.0 if self.multipliers[self.start] < 0.0 else 1.0
        return np.asarray(outwards * signs[:, None] * self.differences[0][:, self.way])

    def points(self) -> tuple[NDArray[np.int64], Floats]:
        """List the start and the points that tolerances are answered with.

        Result `points`: positions in `multipliers`. `tolerances`: smallest one that each keeps to,
        ascending after the start; the last point of those within a tolerance is the answer.
        """
        gaps, stds = self.under, self.differences[1][:, self.way]
        walked = np.maximum.accumulate((np.abs(gaps) + MARGIN * stds).max(axis=0))
        inwards = np.maximum.accumulate((gaps + INWARD_MARGIN * stds).max(axis=0))
        outwards = (OUTWARD_MARGIN * stds - gaps).max(axis=0)
        outwards = np.maximum.accumulate(outwards[::-1])[::-1]
        # The walk inwards ends at a point, unless the tolerance suffices for the next one too.
        ends = outwards < np.append(inwards[1:], np.inf)
        reach = np.minimum(walked, np.where(ends, np.maximum(inwards, outwards), np.inf))
        # Of all points that a tolerance reaches the one with the smallest correction.
        answers = reach <= np.minimum.accumulate(reach[::-1])[::-1]
        answers[0] = True
        return self.way[answers], reach[answers]

    def choose(self, tolerance: float) -> tuple[int, float]:
        """Find the point of the smallest correction that is shown to keep to a tolerance.

        For a tolerance that was fixed before these tables were released the gap at `point` is above
        `kept` with a chance of at most `ERROR`: see ``docs/theory/fair_path.md``.

        Result `point`: position in `multipliers`; the start where no point is shown to keep to the
        tolerance. `kept`: the tolerance; where there is no such point, what the start keeps to.
        """
        points, tolerances = self.points()
        shown = points[tolerances <= tolerance]
        if len(shown) == 0:
            return self.start, float(tolerances[0])
        return int(shown[-1]), float(tolerance)

    def frame(self, groups: tuple) -> pd.DataFrame:
        """Lay out the start, and the points between it and no constraint that are answers."""
        points, tolerances = self.points()
        levels = {
            f"rate of {group}{name and f' ({name})'}": self.levels[r, g, points]
            for r, name in enumerate(self.rates.names)
            for g, group in enumerate(groups)
        }
        columns = {
            "tolerance": tolerances,
            "multiplier": self.multipliers[points],
            "gap": self.gaps[points],
            "gap_std": self.gap_stds[points],
            "gap_bound": self.gap_bounds[points],
            **levels,
            "accuracy": self.accuracies[points],
            "accuracy_std": self.accuracy_stds[points],
        }
        return pd.DataFrame(columns)


def start_of(path: ReleasedPath, estimates: tuple[Floats, Floats] | None = None) -> float:
    """Find the multiplier of `MULTIPLIERS` where gaps are smallest; of equal ones the next to 0.

    `path`: of tables that are not used for the walk. Gaps between its points are interpolated.
    `estimates`: gaps and standard errors in place of its own gaps, as `pooled_gaps` returns them.
    They are compared with `MARGIN` errors added, so the start does not leave 1 for a gap that is
    small by luck.
    """
    gaps = path.differences[0]
    gaps, stds = (gaps, np.zeros_like(gaps)) if estimates is None else estimates
    places, largest = np.arange(len(MULTIPLIERS)), np.zeros(len(MULTIPLIERS))
    known = np.searchsorted(MULTIPLIERS, path.multipliers)
    for gap, std in zip(gaps, stds, strict=True):
        margin = MARGIN * np.interp(places, known, std)
        largest = np.maximum(largest, np.abs(np.interp(places, known, gap)) + margin)
    return float(MULTIPLIERS[np.lexsort((np.abs(MULTIPLIERS), largest))[0]])


def pooled_gaps(
    path: ReleasedPath, covariance: Floats, at_one: Floats, std: float
) -> tuple[Floats, Floats]:
    """Estimate signed gaps, and their standard errors, from two tables with their own noise.

    What is known at multiplier 1 moves each estimate as far as its noise is that at 1, which is
    least squares. Shapes: as those of `ReleasedPath.differences`.

    `path`: as `start_of` takes it, with noise of `decided` alone; 1 is one of its points.
    `covariance` (side, side): of the noise in the prefix sums of one side. `at_one` (n_groups,
    n_labels, n_answers): mean of decisions around multiplier 1, with noise of deviation `std` on
    each entry.
    """
    side, one = path.start, int(np.searchsorted(path.multipliers, 1.0))
    gaps = path.differences[0]
    known, errors = (
        of_table[:, None] for of_table in gaps_of_table(path.rates, path.direction, at_one, std)
    )
    unit = unit_of_sums(path)
    with_one = np.concatenate([np.zeros(side + 1), covariance[one - side - 1]])
    of_sums = unit**2 * _outwards(np.diag(covariance)), unit**2 * with_one
    variances = path.differences[1] ** 2 + of_sums[0]
    covariances = path.shared_variances(one) + of_sums[1]
    weights = covariances / np.maximum(variances[:, one, None] + errors**2, TINY)
    pooled = gaps + weights * (known - gaps[:, one, None])
    return pooled, np.sqrt(np.maximum(variances - weights * covariances, 0.0))


def gaps_of_table(
    rates: Rates, direction: Floats, decided: Floats, std: float
) -> tuple[Floats, Floats]:
    """Estimate signed gaps, and their standard errors, from one table of decisions.

    Shapes (n_rates * n_pairs,). `decided`, `direction`: see `ReleasedPath`. `std`: of the noise of
    each entry.
    """
    nothing = np.zeros((2, len(rates.names), len(decided), 0)), np.zeros((2, 0)), std
    no_sums = np.zeros(0), np.zeros(0)
    point = ReleasedPath(
        rates, np.zeros(1), decided, *nothing, *no_sums, start=0, direction=direction
    )
    gaps, stds = point.differences
    return gaps[:, 0], stds[:, 0]


def unit_of_sums(path: ReleasedPath) -> Floats:
    """State what a unit of noise in a prefix sum adds to signed gaps, (n_rates * n_pairs, 1)."""
    units = replace(path, decided_std=0.0, changed_stds=np.ones(path.changed.shape[-1]))
    return units.differences[1][:, :1]


def _along(sums: Floats) -> Floats:
    """Prefix sums of both sides, (2, ..., side), in the order of the multipliers."""
    negative, positive = sums
    return np.concatenate([negative[..., ::-1], np.zeros((*sums.shape[1:-1], 1)), positive], -1)


def _outwards(stds: Floats) -> Floats:
    return _along(np.stack([stds, stds]))
