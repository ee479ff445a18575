"""Errors of predicted numbers on held-out rows, compared with constant answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

_NORMAL = 1.959964  # of two sides, at 95 %


@dataclass(frozen=True)
class NumberErrors:
    """Errors of a model, and of the best constant answers to the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.certificate.number_errors import NumberErrors
    >>> y = np.arange(100.0)
    >>> print(NumberErrors.of(y, y + np.tile([5.0, -5.0], 50)))
    Mean absolute error on the held-out rows: 5 [5, 5]; of the best constant: 25. R²: 0.970 ...
    """

    rows: int
    absolute: float  # mean absolute error of the model
    absolute_error: float  # its standard error
    absolute_constant: float  # mean absolute error of the median
    difference_error: float  # standard error of the difference of the two
    squared: float  # mean squared error of the model
    variance: float  # that of the mean
    r2_error: float  # standard error of R²
    noisy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        figures = [*vars(self).values()]
        if type(self.rows) is not int or self.rows < 2:
            raise ValueError(f"'errors' must count 2 rows or more; got {self.rows!r}.")
        if not all(isinstance(x, int | float) and math.isfinite(x) and x >= 0 for x in figures):
            raise ValueError("'errors' must hold finite numbers >= 0.")
        for absolute, squared in (
            (self.absolute, self.squared),
            (self.absolute_constant, self.variance),
        ):
            if absolute**2 > squared * (1.0 + 1e-9) + 1e-300:
                raise ValueError(
                    "'errors' contradict each other: a mean absolute error is above the root of "
                    "the mean squared error."
                )
        spread = math.sqrt(max(self.squared - self.absolute**2, 0.0) / self.rows)
        if abs(self.absolute_error - spread) > 1e-6 * math.sqrt(self.squared):
            raise ValueError("'absolute_error' does not follow from the other errors.")

    @classmethod
    def of(cls, targets: NDArray, predictions: NDArray) -> Self | None:
        """Compare predictions with targets; None for fewer than two rows."""
        n = len(targets)
        if n < 2:
            return None
        apart, off = targets - predictions, targets - targets.mean()
        absolute, constant = np.abs(apart), np.abs(targets - np.median(targets))
        squared, variance = float((apart**2).mean()), float((off**2).mean())
        # R² is a quotient of two means; its error to first order. Squares are divided first, as
        # squares of squares overflow for targets from about 1e77 on.
        relative = np.zeros(n)
        if variance > 0:
            relative = apart**2 / variance - squared / variance * (off**2 / variance)
        return cls(
            rows=n,
            absolute=float(absolute.mean()),
            absolute_error=float(absolute.std()) / math.sqrt(n),
            absolute_constant=float(constant.mean()),
            difference_error=float((absolute - constant).std()) / math.sqrt(n),
            squared=squared,
            variance=variance,
            r2_error=float(relative.std()) / math.sqrt(n),
        )

    @property
    def r2(self) -> float | None:
        """Share of the variance that the model explains; None where targets are constant."""
        return 1.0 - self.squared / self.variance if self.variance > 0 else None

    @property
    def no_better(self) -> bool:
        """Whether the model is not shown to beat the median as an answer, at 95 %."""
        return self.absolute_constant - self.absolute < 1.645 * self.difference_error

    @property
    def measures(self) -> tuple[tuple[str, float | None, float | None], ...]:
        """Name of a measure, its value for the model, and for the best constant answer."""
        return (
            ("mean absolute error", self.absolute, self.absolute_constant),
            ("root of the mean squared error", math.sqrt(self.squared), math.sqrt(self.variance)),
            ("R²", self.r2, 0.0),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of JSON types."""
        return dict(vars(self))

    def __str__(self) -> str:
        reach = _NORMAL * self.absolute_error
        worse = self.absolute - self.absolute_constant >= 1.645 * self.difference_error
        why = "it is worse." if worse else "the difference is within its error."
        found = (
            f"Mean absolute error on the held-out rows: {self.absolute:.4g} "
            f"[{max(self.absolute - reach, 0.0):.4g}, {self.absolute + reach:.4g}]; of the best "
            f"constant: {self.absolute_constant:.4g}."
        )
        if self.r2 is not None:
            ends = [self.r2 + sign * _NORMAL * self.r2_error for sign in (-1.0, 1.0)]
            found += f" R²: {self.r2:.3f} [{ends[0]:.3f}, {min(ends[1], 1.0):.3f}]."
        found += " Intervals are approximate, of 95 % each."
        return found + f" NO BETTER THAN A CONSTANT: {why}" * self.no_better
