"""Decision thresholds for stated costs of mistakes, from one noisy table of scores by label."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from skfairdp.foundation.parameters import POSITIVE
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes

if TYPE_CHECKING:
    from torch import Tensor

    from skfairdp.engine.release import NoisyRelease, Rows

Floats = NDArray[np.float64]

# Thresholds: that of exact chances in the middle, the others apart by this in log-odds.
_STEP, _SIDE = 0.25, 16
N_BINS = 2 * _SIDE + 2
# Chance, over the noise of the table, that a bound on any threshold's cost fails.
FAILURE = 0.05
# Costs that differ by more leave one answer for all rows.
_LARGEST_RATIO = 1e6
_FARTHEST = 30.0  # largest log-odds: their chance is below 1 in float64


@dataclass(frozen=True)
class StatedCosts:
    """Costs of a mistake about a record of each class, and the thresholds among which they choose.

    `first`, `second`: costs, the larger one 1. `odds`: log-odds of the second class at which both
    answers cost the same, if chances are exact.
    """

    first: float
    second: float
    odds: float

    @classmethod
    def of(
        cls, costs: Mapping[Any, float], weights: Mapping[Any, float], labels: Sequence[Any]
    ) -> StatedCosts:
        """Read costs and class weights by label, in the order of the classes.

        A net trained with class weights gives odds that are multiplied by their ratio, and so is
        the threshold.
        """
        first, second = (float(costs[label]) for label in labels)
        largest = max(first, second)
        weighed = math.log(weights[labels[1]] / weights[labels[0]]) if weights else 0.0
        return cls(first / largest, second / largest, math.log(first / second) + weighed)

    @property
    def middle(self) -> float:
        """Threshold that is right for exact chances."""
        return float(self.thresholds[_SIDE])

    @property
    def thresholds(self) -> Floats:
        """Public grid of chances, ascending; the middle one is right for exact scores."""
        odds = self.odds + _STEP * np.arange(-_SIDE, _SIDE + 1)
        return np.asarray(expit(np.clip(odds, -_FARTHEST, _FARTHEST)))

    def bins(self, chances: Floats) -> NDArray[np.int64]:
        """Number of thresholds below each chance: at the others the first class is predicted."""
        return np.searchsorted(self.thresholds, chances, side="left").astype(np.int64)

    def table(self, counts: Floats, plan: Plan) -> pd.DataFrame:
        """Costs of all thresholds by noisy counts (`N_BINS`, 2), with margins that all hold.

        `plan`: of the fit, whose last segment is the table.
        """
        segment = plan.segments[-1]
        (block,), n = segment.blocks, sum(segment.expected_sizes)
        below = np.cumsum(counts, axis=0)[:-1]
        above = counts.sum(axis=0) - below
        cost = self.first * above[:, 0] + self.second * below[:, 1]
        change = cost - cost[_SIDE]
        # Changes are sums of independent noise in the bins between: each bound fails by one part
        # of the error, on either side. A part in 2**20 covers the grid of the noise.
        spread = math.hypot(self.first, self.second) * block.noise_std * (1.0 + 2.0**-20)
        factor = -float(ndtri(FAILURE / (4 * _SIDE)))
        margin = factor * spread * np.sqrt(np.abs(np.arange(-_SIDE, _SIDE + 1)))
        figures = {"cost": cost, "change": change, "margin": margin}
        return pd.DataFrame({"threshold": self.thresholds} | {k: v / n for k, v in figures.items()})

    def chosen(self, table: pd.DataFrame) -> float:
        """Threshold whose upper bound is least; of equal ones that nearest to the middle."""
        bound = (table["change"] + table["margin"]).to_numpy()
        apart = np.abs(np.arange(-_SIDE, _SIDE + 1))
        return float(self.thresholds[np.lexsort((apart, bound))[0]])


def refuse_costs(costs: Mapping[Any, Any]) -> None:
    """Refuse costs that are not two positive numbers of comparable size."""
    wrong = {label: cost for label, cost in costs.items() if not POSITIVE.accepts(cost)}
    if wrong or len(costs) != 2:
        raise ValueError(
            f"'costs' must map each of two classes to {POSITIVE.describe()}, such as "
            f"{{0: 1, 1: 5}}; got {wrong or dict(costs)!r}."
        )
    if max(costs.values()) > _LARGEST_RATIO * min(costs.values()):
        raise ValueError(
            f"'costs' must differ by a factor of at most {_LARGEST_RATIO:g}; got {dict(costs)!r}. "
            "With such costs one answer is right for all rows."
        )


def with_table(plan: Plan, sizes: Sizes, share: float) -> Plan:
    """Add the table of scores to a plan, for a share of the budget; 0 adds none."""
    if sizes.n_classes != 2:
        raise ValueError(
            f"'costs' has a meaning for two classes alone; got {sizes.n_classes} classes. Leave "
            "it out, or put classes together."
        )
    if share == 0.0:
        return plan
    # All other releases are about one Gaussian release.
    parts = [(s.steps, s.rates[0], s.multiplier(0)) for s in plan.segments]
    std = 0.0
    if all(multiplier > 0.0 for _, _, multiplier in parts):
        precision = sum(steps * (rate / multiplier) ** 2 for steps, rate, multiplier in parts)
        std = math.sqrt((1.0 - share) / (share * precision))
    return replace(plan, segments=(*plan.segments, sizes.whole(("scores", 1.0, std))))


def counted_scores(
    release: NoisyRelease, costs: StatedCosts, chances: Callable[[Tensor], Floats]
) -> Floats:
    """Release how many records of each label have scores between neighbouring thresholds.

    `chances`: gives each row's chance of the second class, shape (n,). Result: noisy counts of
    shape (`N_BINS`, 2), a column for each class.
    """

    def entries(rows: Rows) -> list[NDArray[np.int64]]:
        labels = rows.targets[0].cpu().numpy().reshape(-1) > 0.5
        return [2 * costs.bins(chances(rows.X)) + labels]

    (table,) = release.tables(release.meter.plan.segments[-1], entries, [2 * N_BINS])
    return np.asarray(table.reshape(N_BINS, 2), dtype=np.float64)
