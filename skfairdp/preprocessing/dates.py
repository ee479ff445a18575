"""Dates of a column as days, months and weekdays, each cell by itself."""

from __future__ import annotations

import math
import re
from datetime import date

import numpy as np
from numpy.typing import NDArray

from skfairdp.engine.table_release import Cells
from skfairdp.preprocessing.levels import DAYS, FIRST, Categories

_DATE = re.compile(r"(\d{4})([-/])(\d\d)\2(\d\d)(?:[T ].*)?\Z", re.ASCII)
# Known beforehand, and so at no cost
MONTHS = Categories(
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
)
WEEKDAYS = Categories(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))


def days(cells: Cells) -> NDArray[np.float64]:
    """Days from 1970-01-01 to each cell's date; NaN where there is none.

    A date is year, month and day, parted by hyphens or slashes; what follows is not read.
    """
    return np.array([*map(_day, cells.distinct), math.nan])[cells.texts]


def names_of_parts(label: str) -> tuple[str, str, str]:
    """Names of the columns that a column of dates becomes."""
    return f"{label}{DAYS}", f"{label} (month)", f"{label} (weekday)"


def month_and_weekday(day: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions among `MONTHS` and `WEEKDAYS` of days since 1970-01-01; -1 for NaN."""
    missing = np.isnan(day)
    dates = np.where(missing, 0, day).astype("datetime64[D]")
    months = dates.astype("datetime64[M]").astype(np.int64) % 12
    weekdays = (dates.astype(np.int64) + 3) % 7
    return np.where(missing, -1, months), np.where(missing, -1, weekdays)


def _day(text: str) -> float:
    found = _DATE.match(text)
    try:
        return (
            math.nan if found is None else date(*map(int, found.group(1, 3, 4))).toordinal() - FIRST
        )
    except ValueError:  # the 30th of February
        return math.nan
