"""How often a model is right on held-out rows, beside a constant answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from numpy.typing import NDArray


@dataclass(frozen=True)
class Accuracy:
    """Right answers of a model, and of the label that is most frequent among the same rows.

    Examples
    --------
    >>> from skfairdp.certificate.accuracy import Accuracy
    >>> print(Accuracy(rows=1000, right=810, constant=760, error=15.0, noisy=False))
    Accuracy on the held-out rows: 0.810; of the most frequent label for everybody: 0.760.
    """

    rows: float
    right: float
    constant: float
    error: float  # standard error of the difference of the two
    noisy: bool

    def __post_init__(self) -> None:
        numbers = self.rows, self.right, self.constant, self.error
        if not all(math.isfinite(x) for x in numbers) or self.rows <= 0 or self.error < 0:
            raise ValueError("'accuracy' must hold finite numbers, with rows above 0.")

    @classmethod
    def of_table(cls, table: NDArray, noise_variance: float = 0.0) -> Self | None:
        """Count (group x label x prediction); None without rows or labels.

        `noise_variance`: of each entry.
        """
        counts, n = table.sum(axis=0), len(table[0])
        if counts.shape[0] < 2 or counts.sum() <= 0:
            return None
        most = int(counts.sum(axis=1).argmax())
        right = float(counts.trace())
        constant = float(counts[most].sum())
        # Rows that only one of the two gets right.
        differ = right + constant - 2.0 * float(counts[most, most])
        entries = len(table) * 2 * (n - 1)
        error = math.sqrt(max(differ, 1.0) + entries * noise_variance)
        return cls(float(counts.sum()), right, constant, error, noise_variance > 0.0)

    @property
    def no_better(self) -> bool:
        """Whether the model is not shown to beat the constant answer, at 95 %."""
        return self.right - self.constant < 1.645 * self.error

    def __str__(self) -> str:
        shown = (min(max(count / self.rows, 0.0), 1.0) for count in (self.right, self.constant))
        model, constant = (f"{share:.3f}" for share in shown)
        text = (
            f"{'Noisy accuracy' if self.noisy else 'Accuracy'} on the held-out rows: {model}; of "
            f"the most frequent label for everybody: {constant}."
        )
        return text + (
            " NO BETTER THAN A CONSTANT: the difference is within its error." * self.no_better
        )
