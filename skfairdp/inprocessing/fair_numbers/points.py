"""Points of a fair regressor, one for a tolerance, from released tables of scores by group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from skfairdp.inprocessing.fair_numbers.tables import (
    DISTRIBUTIONS,
    ERROR,
    MULTIPLIERS,
    Floats,
    Table,
)
from skfairdp.inprocessing.fair_numbers.transport import band, shifts
from skfairdp.records.numbers import TargetBounds

_AIMS = 21  # that are listed; there is one for every tolerance
_LEVELS = (np.arange(1_000) + 0.5) / 1_000  # of a distribution, at which moves are looked at


@dataclass(frozen=True)
class Point:
    """Setting of a fitted regressor, and the tolerance among training rows that it keeps."""

    kept: float
    aim: float = 0.0  # distance that is aimed at in the table; groups are known at prediction
    multiplier: float = 0.0  # of what a blind model expects of the group, in its unit


@dataclass(frozen=True, eq=False)
class NumberPath:
    """All points of a regressor; functions of released values alone.

    `scores`: the table of scores by group. `moved`: those of a blind model's moved scores, one for
    each of `MULTIPLIERS`; empty where groups are known at prediction.
    """

    notion: str
    scores: Table
    moved: tuple[Table, ...]

    def choose(self, tolerance: float) -> Point:
        """Choose the point that moves scores the least, of those that keep to a tolerance.

        Where none is shown to keep to it, the one with the smallest gap that can be shown.
        """
        if not self.moved:
            hidden = self.hidden()
            aim = max(tolerance - hidden, 0.0)
            return Point(kept=aim + hidden, aim=aim)
        points = self.blind()
        keeping = [point for point in points if point.kept <= tolerance]
        return keeping[0] if keeping else min(points, key=lambda point: point.kept)

    def hidden(self) -> float:
        """Part of a gap that noise may hide, where groups are known at prediction."""
        return self.scores.reach(self.notion, 0.8 * ERROR)

    def blind(self) -> list[Point]:
        """Points of a blind model, with the tolerances that they keep, all together."""
        error = 0.8 * ERROR / (1 + len(self.moved))
        kept = [table.bound(self.notion, error) for table in (self.scores, *self.moved)]
        pairs = zip(kept, (0.0, *MULTIPLIERS), strict=True)
        return [Point(kept=bound, multiplier=multiplier) for bound, multiplier in pairs]

    def frame(self, groups: tuple, bounds: TargetBounds) -> pd.DataFrame:
        """Lay out the points, from the smallest aim or the largest moves to no constraint."""
        rows = self._blind_rows() if self.moved else self._aware_rows()
        found = []
        for point, gap, means, moved in rows:
            of_groups = zip(groups, bounds.unscaled(means).tolist(), strict=True)
            found.append(
                {
                    "tolerance": point.kept,
                    "aim": point.aim if not self.moved else np.nan,
                    "multiplier": point.multiplier if self.moved else np.nan,
                    "gap": gap,
                    **{f"mean of {group}": mean for group, mean in of_groups},
                    "squared_move": moved * bounds.half**2,
                }
            )
        return pd.DataFrame(found)

    def _blind_rows(self) -> list[tuple[Point, float, Floats, float]]:
        found = []
        for point, table in zip(self.blind(), (self.scores, *self.moved), strict=True):
            # By how much each row was moved is in no table.
            moved = 0.0 if point.multiplier == 0.0 else np.nan
            found.append((point, table.gap(self.notion), table.scores.means, moved))
        return found[::-1]

    def _aware_rows(self) -> list[tuple[Point, float, Floats, float]]:
        scores, hidden = self.scores.scores, self.hidden()
        widest = self.scores.gap(self.notion)
        quantiles, found = scores.quantiles(_LEVELS), []
        for aim in np.linspace(0.0, widest, _AIMS).tolist():
            if self.notion == DISTRIBUTIONS:
                limits = band(scores, aim)
                moved = np.array([limits.limited(own, _LEVELS) for own in quantiles])
            else:
                moved = quantiles + shifts(scores, 2.0 * aim)[:, None]
            price = ((moved - quantiles) ** 2).mean(axis=1) @ scores.shares
            point = Point(kept=aim + hidden, aim=aim)
            found.append((point, aim, moved.mean(axis=1), float(price)))
        return found
