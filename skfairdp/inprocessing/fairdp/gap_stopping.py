"""Stop training while a released gap is still below a target."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor, nn

from skfairdp.engine.inference import outputs_by_row
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.fairness.notions import Notion
from skfairdp.privacy.plan import CountRelease


def released_gap(table: np.ndarray, notion: Notion) -> float:
    """Largest difference of rates read off a noisy (group x label x prediction) table.

    Negative counts are read as zero, and a group without rows in a stratum is left out.
    """
    gap = 0.0
    for stratum in notion.strata((0, 1)):
        successes, failures = stratum.count(table.clip(min=0))
        seen = successes + failures > 0
        rates = successes[seen] / (successes + failures)[seen]
        if len(rates) > 1:
            gap = max(gap, float(rates.max() - rates.min()))
    return gap


@dataclass
class GapStop:
    """Watch a bought gap every few epochs and go back to the last model within target."""

    release: NoisyRelease  # The only access to the rows
    price: CountRelease  # The plan's entry for the tables
    module: nn.Module
    vector: Tensor  # (p,): its parameters
    notion: Notion
    tolerance: float
    every: int
    n_groups: int
    cut: float  # Logit above which the second class is predicted
    gaps: list[float] = field(default_factory=list)
    best_step: int | None = None

    def after_step(self, step: int) -> bool:
        """Buy a table where one is due; stop once the gap is above a tolerance that it met.

        Before that, the model with the smallest gap is kept.
        """
        if step % self.every or len(self.gaps) >= self.price.releases:
            return False
        table = self.release.counts(self.price, self._cell, self.n_groups * 4)
        gap = released_gap(table.reshape(self.n_groups, 2, 2), self.notion)
        best = min(self.gaps, default=float("inf"))
        self.gaps.append(gap)
        if gap <= self.tolerance or (best > self.tolerance and gap < best):
            self._kept = self.vector.clone()
            self.best_step = step
            return False
        return best <= self.tolerance

    def restore(self) -> None:
        """Put the kept model back."""
        if self.best_step is not None:
            self.vector.copy_(self._kept)

    def _cell(self, rows: Rows) -> np.ndarray:
        predicted = (_logits(self.module, rows.X) > self.cut).long().cpu().numpy()
        label = rows.targets[0].long().cpu().numpy()
        cell = (rows.codes * 2 + label) * 2 + predicted
        return np.where(rows.codes >= 0, cell, -1)


def _logits(module: nn.Module, X: Tensor) -> Tensor:
    return outputs_by_row(module, X).reshape(-1)
