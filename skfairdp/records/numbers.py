"""Targets that are numbers: one a row, and the bounds that they are scaled by."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning

from skfairdp.exceptions import warn_user
from skfairdp.foundation.parameters import Number
from skfairdp.records.labels import SECRET_PART
from skfairdp.records.one_column import unmasked

# Names of the losses; "huber" is linear from a quarter of the half range on.
LOSSES = ("squared", "huber")
Numbers = TypeVar("Numbers")  # a NumPy array or a torch tensor
_BOUND = Number(-1e100, 1e100)
# Bounds that are closer than this part of their size leave no room between them.
_ROOM = 1e-9


@dataclass(frozen=True)
class Interval:
    """Parameter check: two numbers, the first clearly below the second."""

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, tuple | list | np.ndarray) or len(value) != 2:
            return False
        if not all(map(_BOUND.accepts, value)):
            return False
        low, high = map(float, value)
        return high - low > _ROOM * max(abs(low), abs(high))

    def describe(self) -> str:
        return (
            "two numbers (low, high), the first below the second, such as (0, 100), from -1e100 to "
            "1e100 and at least a billionth of their size apart (subtract a constant from numbers "
            "that are closer)"
        )


INTERVAL = Interval()


@dataclass(frozen=True)
class TargetBounds:
    """Public or released bounds of a target, between which a net learns numbers in [-1, 1]."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return self.low + self.half

    @property
    def half(self) -> float:
        """Half of the distance of the bounds."""
        return 0.5 * (self.high - self.low)

    def scaled(self, numbers: Numbers) -> Numbers:
        """Clip numbers to the bounds and map these to -1 and 1; entry by entry."""
        given: Any = numbers
        return ((given - self.middle) / self.half).clip(-1.0, 1.0)

    def unscaled(self, scaled: Numbers) -> Numbers:
        """Map -1 and 1 to the bounds; values beyond them are clipped."""
        given: Any = scaled
        return (self.middle + self.half * given).clip(self.low, self.high)


UNIT = TargetBounds(-1.0, 1.0)  # leave numbers as they are, and clip them


def check_numbers(estimator: Any, y: Any, n_rows: int) -> NDArray[np.float64]:
    """Read one finite number a row, each cell by itself.

    Raises ValueError: `y` is missing or constant, or a cell is no finite number. No message
    shows a cell, its place or the number of rows.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    numbers = number_column(y, n_rows)
    if np.isnan(numbers).any():
        raise ValueError(
            "Input y contains NaN. Every row needs a number: None, NaN and pd.NA are missing ones. "
            "Leave such rows out before fit, by a rule that looks at each row alone."
        )
    if not np.isfinite(numbers).all():
        raise ValueError(
            "Input y contains infinity. Every target must be a finite number; replace infinite "
            "ones by the nearest of target_bounds."
        )
    # Whether a part that chance chose in secret is constant depends on single records.
    if not SECRET_PART.get() and float(numbers.min()) == float(numbers.max()):
        raise ValueError(
            "y is constant: all targets are one number, and there is nothing to learn. Pass the "
            "column that is to be predicted."
        )
    return numbers


def number_column(y: Any, n_rows: int, name: str = "y") -> NDArray[np.float64]:
    """Read one number a row; NaN for a missing value."""
    if issparse(y):
        raise ValueError(f"Sparse data was passed for {name}; pass an array or list of numbers.")
    y = unmasked(y)
    try:
        # Numbers of several kinds become float64, each as float() has it; a single text, date or
        # complex number is refused below, and changes how no other cell is read.
        values = np.asarray(y)
    except (TypeError, ValueError):  # rows of different lengths
        values = np.empty((0, 0, 0))
    if values.ndim == 2 and values.shape[1] == 1:
        warn_user(
            "A column-vector y was passed when a 1d array was expected. Please change the shape "
            "of y to (n_samples,), for example using ravel().",
            DataConversionWarning,
        )
        values = values.ravel()
    if values.ndim != 1:
        raise ValueError(
            f"{name!r} must hold one number a row: an array, a list or a Series of one dimension."
        )
    if len(values) != n_rows:
        raise ValueError(
            f"Found inconsistent numbers of samples: {name!r} must hold one number for each row of "
            f"X. Compare len(X) with len({name})."
        )
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name!r} must hold real numbers.")
    numbers = [_number(cell) for cell in values] if values.dtype.kind == "O" else [None]
    if any(number is None for number in numbers):
        raise ValueError(
            f"{name!r} holds values that are not numbers, such as text or dates. Convert the "
            "column, as with pandas.to_numeric, or use a classifier, such as DPSGDClassifier, if "
            "its values name classes."
        )
    return np.array(numbers, dtype=np.float64)


def _number(cell: Any) -> float | None:
    """Number that a cell holds, NaN for a missing one; None for anything else."""
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return np.nan
    if not isinstance(cell, Real | Decimal | np.bool_):
        return None
    try:
        return float(cell)
    except OverflowError:
        return np.inf
    except ValueError:  # a signalling NaN of Decimal
        return np.nan
