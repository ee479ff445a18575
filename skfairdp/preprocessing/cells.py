"""Cells of a column, each read by itself: a number, a text, a date, or missing."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from contextlib import suppress
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skfairdp.engine.table_release import Cells
from skfairdp.preprocessing.levels import DAYS, FIRST, Categories
from skfairdp.records.labels import factorized
from skfairdp.records.written_numbers import plain_number

# How numbers in decimal digits end; "nan", "inf" and "infinity" are texts.
_LAST = frozenset("0123456789.")
# Of these letters alone no "nan", "inf" or "1_000" is written.
_OF_NUMBERS = frozenset("0123456789.+-eE \t")
_TRUTH = {"true": 1.0, "false": 0.0}
_DATE = re.compile(r"(\d{4})([-/])(\d\d)\2(\d\d)(?:[T ].*)?\Z", re.ASCII)
# The day first. With slashes or dashes it may be the month, so those are texts.
_DAY_FIRST = re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})(?: .*)?\Z", re.ASCII)
# Known beforehand, and so at no cost
MONTHS = Categories(
    ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
)
WEEKDAYS = Categories(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))


def refuse_dtype(values: pd.Series, name: Hashable) -> None:
    """Refuse a column whose dtype has no cells that can be read here."""
    if values.dtype.kind in "mcV" or isinstance(values.dtype, pd.PeriodDtype | pd.IntervalDtype):
        raise ValueError(
            f"Column {name!r} has the dtype {values.dtype}. Turn it into numbers or dates first, "
            "or drop it with columns={...: 'drop'}."
        )


def read_cells(values: pd.Series) -> Cells:
    """Read a column, whatever its dtype.

    The reading of a cell depends on no other cell: text that is a number in decimal digits is that
    number, and so is an amount or a percentage ("$1,234.50", "(1,234)" below zero, "12%" as 12);
    "true" and "false" are 1 and 0, other text counts without the white space around it, a date is
    text ("2026-03-01", or "1.3.2026" with the day first), and what is none of these is missing.
    """
    dtype = values.dtype
    if pd.api.types.is_numeric_dtype(dtype):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0
        return Cells(numbers, np.full(len(numbers), -1, dtype=np.int64))
    codes, distinct = distinct_cells(values)
    plain = _plain_numbers(distinct)
    if plain is not None:
        return Cells(np.append(plain, math.nan)[codes], np.full(len(codes), -1, dtype=np.int64))
    found = [_read(value) for value in distinct]
    where: dict[str, int] = {}
    texts = [-1 if text is None else where.setdefault(text, len(where)) for _, text in found]
    numbers = np.array([*(number for number, _ in found), math.nan])
    return Cells(numbers[codes], np.array([*texts, -1])[codes], tuple(where))


def distinct_cells(values: pd.Series) -> tuple[NDArray[np.int64], list[Any]]:
    """Codes of cells, -1 for missing ones, and their values; values of different types differ."""
    # Of categories those that occur: the dtype also lists texts of people who are held out.
    alike = values.dtype != np.dtype(object)
    if alike or pd.api.types.infer_dtype(values, skipna=True) == "string":
        codes, distinct = factorized(values)
        return np.maximum(codes, -1), distinct
    # Equal values of different kinds, such as 1 and Decimal(1), would be read as the first.
    missing = (v.is_nan() if isinstance(v, Decimal) else pd.isna(v) is True for v in values)
    there = ~np.fromiter(missing, dtype=bool, count=len(values))
    return np.where(there, np.cumsum(there) - 1, -1), list(values[there])


def _plain_numbers(distinct: list[Any]) -> NDArray[np.float64] | None:
    """Read all texts at once, as `_read` does, where all are numbers in decimal digits."""
    if set(map(type, distinct)) != {str}:
        return None
    if not _OF_NUMBERS.issuperset("".join(distinct)):
        return None
    try:
        return np.array(distinct, dtype=object).astype(np.float64) + 0.0
    except ValueError:
        return None


def _read(value: Any) -> tuple[float, str | None]:
    if isinstance(value, str):
        text = value.strip()
        if text[-1:] in _LAST and text.isascii() and "_" not in text:
            with suppress(ValueError):
                return float(text) + 0.0, None
        if (plain := plain_number(text)) is not None:
            return float(plain) + 0.0, None
        truth = _TRUTH.get(text.lower())
        return (math.nan, text) if truth is None else (truth, None)
    if isinstance(value, date) and value is not pd.NaT:
        return math.nan, value.isoformat()[:10]
    if isinstance(value, Real | Decimal | bool | np.bool_):
        try:
            return float(value) + 0.0, None
        except OverflowError:  # a whole number beyond the floats
            return (math.inf if value > 0 else -math.inf), None  # type: ignore[operator]
    return math.nan, None


def days(cells: Cells) -> NDArray[np.float64]:
    """Days from 1970-01-01 to each cell's year, month and day; NaN where there is none."""
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
    parts = (1, 3, 4)
    found = _DATE.match(text)
    if found is None:
        parts, found = (3, 2, 1), _DAY_FIRST.match(text)
    if found is None:
        return math.nan
    try:
        return date(*map(int, found.group(*parts))).toordinal() - FIRST
    except ValueError:  # the 30th of February
        return math.nan
