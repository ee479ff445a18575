"""Noisy errors and predictions of held-out rows, for candidates that predict numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skfairdp.certificate.counted_claims import noisy_cells
from skfairdp.certificate.holdout import GroupedRows, answers_to
from skfairdp.fairness.bounds.noisy_counts import noisy_gap_estimate
from skfairdp.fairness.bounds.rate_gaps import gap_estimate
from skfairdp.fairness.number_notions import (
    DISTRIBUTION_GAP,
    GRID_CELLS,
    NumberGrid,
    get_number_notions,
)
from skfairdp.model_selection.holding_out import Score, score_within
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts.unwrap import unwrap
from skfairdp.records.numbers import TargetBounds

# A row is divided into this many parts where sums are made of it. Sums of whole numbers do not
# depend on their order, and a power of two divides a price without rounding.
PARTS = 1024
ABSOLUTE, SQUARED = "neg_mean_absolute_error", "neg_mean_squared_error"
# Of the price of all tables together, that of the predictions, where they are counted; the errors
# cost the rest.
PREDICTIONS_SHARE = 0.5


@dataclass(frozen=True)
class NumberScoring:
    """Scoring of predicted numbers; public, and the same for all candidates.

    `bounds`: declared, of the target. `measure`: the score. `tolerance`: largest gap; None sets no
    limit, and no predictions are counted. `notion`: the gap.
    """

    bounds: TargetBounds
    measure: str
    tolerance: float | None
    notion: str

    @property
    def grid(self) -> NumberGrid:
        """Public cells that predictions are counted in."""
        return NumberGrid(self.bounds.low, self.bounds.high, GRID_CELLS)

    @classmethod
    def of(cls, search: Any, bounds: Any) -> NumberScoring:
        """Read the parameters of a search; `bounds`: declared target_bounds of its estimator."""
        low, high = map(float, bounds)
        (notion,) = get_number_notions([search.notion])
        return cls(TargetBounds(low, high), search._objective, search.tolerance, notion.name)

    def tables(
        self, model: Any, held: GroupedRows, epsilon: float, source: NoiseSource
    ) -> dict[str, NDArray[np.int64]]:
        """Sum errors of held-out rows, count their predictions, and add noise.

        ``"errors"`` (2,): of the 1024 parts of each row as many are in the first cell as its error
        has of the largest, and the others in the second. The parts of a row add up to 1024, which
        is the L1 sensitivity. ``"predictions"``, with a tolerance: rows by group and cell of the
        prediction (n_groups, 16), each in one at most, so that the L1 sensitivity is 1; for means
        the 1024 parts of each row in two cells of its group (n_groups, 2), as many in the first as
        the prediction has of the range.

        `epsilon`: cost of all tables together, in nats; infinity adds no noise.
        """
        answers, _ = answers_to(unwrap(model), held, private=True)
        predicted = np.asarray(answers, dtype=np.float64)
        guess = self.bounds.scaled(predicted)
        error = 0.5 * np.abs(guess - self.bounds.scaled(np.asarray(held.y, dtype=np.float64)))
        if self.measure == SQUARED:
            error = error**2
        # Targets are finite. A prediction that is no number has the largest error.
        tables = {"errors": _divided(np.nan_to_num(error, nan=1.0)).sum(axis=0)}
        moved = {"errors": PARTS}  # L1 sensitivities
        shares = {"errors": 1.0 if self.tolerance is None else 1.0 - PREDICTIONS_SHARE}
        if self.tolerance is not None:
            inside = held.groups.codes >= 0
            if self.notion == DISTRIBUTION_GAP:
                places = self.grid.places(predicted)
                parts = (np.arange(GRID_CELLS) == places[:, None]).astype(np.int64)
                moved["predictions"] = 1
            else:
                parts = _divided(np.nan_to_num(0.5 * (guess + 1.0)))
                moved["predictions"] = PARTS
            table = np.zeros((len(held.groups.labels), parts.shape[1]), dtype=np.int64)
            np.add.at(table, held.groups.codes[inside], parts[inside])
            tables["predictions"], shares["predictions"] = table, PREDICTIONS_SHARE
        if math.isinf(epsilon):
            return tables
        return {
            name: table + source.discrete_laplace(epsilon * shares[name] / moved[name], table.shape)
            for name, table in tables.items()
        }

    def score_of(self, tables: dict[str, NDArray[np.int64]]) -> tuple[Score, float | None]:
        """Score of a candidate, in units of the target, and its gap, from the noisy tables alone.

        No gap without a tolerance, or two groups with rows.
        """
        wrong, right = np.maximum(tables["errors"], 0).tolist()
        error = wrong / (wrong + right) if wrong + right else 1.0
        unit = 2.0 * self.bounds.half
        value = -error * (unit**2 if self.measure == SQUARED else unit)
        if self.tolerance is None:
            return Score(0.0, value), None
        table = tables["predictions"]
        if self.notion == DISTRIBUTION_GAP:
            gap = noisy_gap_estimate(noisy_cells(self.grid.strata, table[:, None, :]))
        else:
            rows = np.maximum(table.sum(axis=1), 0)
            gap = gap_estimate(np.clip(table[:, 0], 0, rows)[None], rows[None])
        return score_within(self.tolerance, value, gap), gap


def _divided(shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Divide the parts of each row in two: a share in [0, 1] of them, and the others."""
    some = np.rint(PARTS * shares).astype(np.int64)
    return np.stack([some, PARTS - some], axis=1)
