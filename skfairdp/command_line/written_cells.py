"""Cells as people write them: amounts, percentages, and dates with the month or the day first.

Each cell is read by itself, so that no row changes how those of others are read.
"""

from __future__ import annotations

import re

import pandas as pd

from skfairdp.command_line.parsing import DATES
from skfairdp.records.identifier_names import words_of
from skfairdp.records.labels import factorized

_MONEY = r"[$€£¥]|USD|EUR|GBP|CHF|JPY"
# 1,234 with groups of thousands, or the digits alone; a currency before or behind, or per cent.
_AMOUNT = re.compile(
    rf"(?P<sign>[-+]?) ?(?:{_MONEY})? ?(?P<minus>-?)(?P<whole>\d{{1,3}}(?:,\d{{3}})+|\d+)"
    rf"(?P<part>\.\d+)? ?(?:{_MONEY}|%)?",
    re.ASCII | re.IGNORECASE,
)
_DATE = re.compile(r"(\d\d?)([/-])(\d\d?)\2(\d{4})(?P<time>[ T].*)?", re.ASCII)
_PLAIN = frozenset("0123456789.+eE \t")
_OF_DATES = re.compile(
    r"(?:^| )(?:dates?|day|dob|birthday|birthdate|[a-z]*datum|fecha|jour|naissance)(?: |$)"
)


def as_read(column: pd.Series, dates: str | None) -> pd.Series:
    """Write amounts and percentages as plain numbers, and declared dates with the year first.

    "$1,234.50" becomes "1234.50", "12%" becomes "12"; what is none of these stays as it is.
    `dates`: the order of 3/4/2026, which no cell can tell; None: such cells stay texts.
    """
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    if _PLAIN.issuperset("".join(value for value in column if isinstance(value, str))):
        return column  # numbers alone, of which there may be millions
    codes, found = factorized(column)
    read = [_read(value, dates) if isinstance(value, str) else value for value in found]
    if read == found:
        return column
    texts = pd.Series([*read, None], dtype=object)
    return texts.take(codes).set_axis(column.index).rename(column.name)


def looks_like_a_date(name: str) -> bool:
    """Whether a column's name is that of a date; no value is looked at."""
    return bool(_OF_DATES.search(words_of(name)))


def _read(cell: str, dates: str | None) -> str:
    text = cell.strip()
    if (amount := _AMOUNT.fullmatch(text)) is not None:
        sign = "-" if "-" in (amount["sign"], amount["minus"]) else ""
        return f"{sign}{amount['whole'].replace(',', '')}{amount['part'] or ''}"
    if dates is not None and (date := _DATE.fullmatch(text)) is not None:
        month, day = (date[1], date[3]) if dates == DATES[0] else (date[3], date[1])
        return f"{date[4]}-{month:0>2}-{day:0>2}{date['time'] or ''}"
    return cell
