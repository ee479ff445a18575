"""Notions for predictions that are numbers: comparisons between groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.notions import Stratum

DISTRIBUTION_GAP, MEAN_GAP = "distribution_gap", "mean_gap"


@dataclass(frozen=True)
class NumberNotion:
    """Fairness notion for predicted numbers, with its wording in certificates."""

    name: str
    rates: str
    meaning: str
    needs_labels: ClassVar[bool] = False

    @property
    def words(self) -> tuple[str, str]:
        """Rates and meaning, for claims."""
        return self.rates, self.meaning

    def between(self, low: float, high: float) -> NumberNotion:
        """The same with the bounds of predictions in its words."""
        return replace(self, rates=self.rates.format(low=f"{low:g}", high=f"{high:g}"))

    def on_grid(self, n: int) -> NumberNotion:
        """The same at some numbers alone, which are public."""
        return replace(self, rates=f"{self.rates} (each of {n} public ones)")


@dataclass(frozen=True)
class NumberGrid:
    """Public thresholds at which distributions are compared: ends of even cells between bounds."""

    low: float
    high: float
    n_cells: int

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """All ends but the first and the last, ascending."""
        return np.linspace(self.low, self.high, self.n_cells + 1)[1:-1]

    def places(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        """Cell of each number; of those beyond the bounds the nearest, of NaN the first."""
        known = np.nan_to_num(numbers, nan=self.low)
        return np.searchsorted(self.thresholds, known, side="left")

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """Rates that are compared: of numbers up to each threshold."""
        up_to = np.arange(self.n_cells) <= np.arange(self.n_cells - 1)[:, None]
        return tuple(
            Stratum(f"prediction at most {end:.6g}", mask[None], ~mask[None])
            for end, mask in zip(self.thresholds.tolist(), up_to, strict=True)
        )


# Cells where rates are compared at some thresholds alone.
GRID_CELLS = 16
NUMBER_NOTIONS = {
    DISTRIBUTION_GAP: NumberNotion(
        DISTRIBUTION_GAP,
        "shares of predictions at or below the same number",
        "Take a number, such as the median of all predictions: in each group, some share of the "
        "predictions is at or below it, and the bound is about the difference of these shares "
        "between groups (Kolmogorov-Smirnov distance). It holds for every number, unless the claim "
        "speaks of public ones: then for those alone, and shares may differ by more between them. "
        "Groups with equal shares at every number have the same mean and median; groups with the "
        "same mean can still differ in the shares.",
    ),
    MEAN_GAP: NumberNotion(
        MEAN_GAP,
        "mean predictions, as shares of the range from {low} to {high},",
        "The mean prediction is compared between groups.",
    ),
}
# What is equal among numbers where demographic parity is kept.
_SAME = {"demographic_parity": DISTRIBUTION_GAP}


def get_number_notions(notions: Any) -> tuple[NumberNotion, ...]:
    """Look up one or several different comparisons of numbers, by name."""
    several = isinstance(notions, Sequence) and not isinstance(notions, str)
    chosen = [*notions] if several else [notions]
    names = [_SAME.get(name, name) if isinstance(name, str) else name for name in chosen]
    other = [name for name in names if not isinstance(name, str) or name not in NUMBER_NOTIONS]
    if other or not names or len(set(names)) < len(names):
        raise ValueError(
            f"notion={notions!r} does not compare numbers; for a model that predicts them use one "
            f"of {[*NUMBER_NOTIONS]}, or both. 'demographic_parity' stands for the first."
        )
    return tuple(NUMBER_NOTIONS[name] for name in names)
