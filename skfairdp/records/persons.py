"""Persons with several rows: assignment of rows to persons."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse

from skfairdp.exceptions import PrivacyWarning, warn_user
from skfairdp.records.identifier_names import looks_like_an_identifier
from skfairdp.records.labels import factorized, label_column
from skfairdp.records.one_column import columns_of
from skfairdp.records.stored_rows import StoredRows

# Fewer rows, or a smaller share of different values, are no sign of an identifier.
_ENOUGH_ROWS, _DIFFERENT = 20, 0.5
# Of these it is certain when two are the same. An object of another type may equal itself alone.
_FLOATS = float | np.floating
_NUMBERS = bool | int | np.bool_ | np.integer | _FLOATS
_EXACT = (
    *(str, bytes, bool, int, float, np.bool_, np.integer, np.floating, Decimal, UUID),
    *(date, time, timedelta, np.datetime64, np.timedelta64, pd.Period),
)
# Names of types of numpy, pandas, polars, Arrow, torch and array, in small letters.
_FLOATS_OF_FEWER_BITS = re.compile(r"float(?!64|128|96)|[<>=]f[24]|^[ef]$")
_TIMES_THAT_ARE_CUT = re.compile(
    r"64\[\d*(?:ps|fs|as)\]|(?<!e)time64\[ns\]|(?:datetime|duration)\(time_unit='ns'|^time$"
)
_ROUNDED = (
    "{name!r} holds floats of 16 or 32 bits, or times that are read to fewer digits, whose "
    "rounding could make one person of two. Read ids as text or as integers."
)
_HELD_OUT = b"one held-out row of each person"  # key of the hash of ids; public


@dataclass(frozen=True, eq=False)
class Persons:
    """Rows sorted by the person that they belong to."""

    codes: NDArray[np.int64]  # (n,): person of each row, numbered by their first rows
    count: int  # Number of persons
    most: int  # Rows that a person brings to a sum, at most

    def one_each(self, of_rows: NDArray[np.int64], error: str) -> NDArray[np.int64]:
        """Turn a code of each row into one of each person; negative where no row has one.

        `error`: what is said where two rows of a person have different codes.
        """
        used = of_rows >= 0
        own = np.full(self.count, -1, dtype=np.int64)
        own[self.codes[used]] = of_rows[used]
        if not np.array_equal(own[self.codes[used]], of_rows[used]):
            raise ValueError(error)
        return own

    def one_row_each(self, below: Callable[..., NDArray[np.int64]]) -> NDArray[np.int64]:
        """Take one row of each person: row numbers, in order of the persons.

        `below`: draws a place for each number of rows, less than it.
        """
        order = np.argsort(self.codes, kind="stable")
        counts = np.bincount(self.codes, minlength=self.count)
        return np.asarray(order[np.cumsum(counts) - counts + below(counts)], dtype=np.int64)

    def same_row_each(self, person_ids: Any) -> NDArray[np.int64]:
        """Take the row of each person that a public hash of the id names, in every call."""
        (column,) = columns_of(person_ids)
        ids = np.asarray(column, dtype=object)[self.one_row_each(np.zeros_like)]

        def below(counts: NDArray[np.int64]) -> NDArray[np.int64]:
            # Numbers as they are equal: 7 and 7.0 are one person.
            texts = (str(int(each) if isinstance(each, _NUMBERS) else each) for each in ids)
            words = (text.encode("utf-8", "surrogatepass") for text in texts)
            hashes = (int.from_bytes(blake2b(each, key=_HELD_OUT).digest()) for each in words)
            return np.array([h % n for h, n in zip(hashes, counts.tolist(), strict=True)], int)

        return self.one_row_each(below)


def root_shares(persons: Persons | None, codes: NDArray[np.integer]) -> NDArray[np.float64]:
    """Root of the share that each row has in the mean of its record: 1 where rows are records.

    `codes` (n,): cell of each row; negative for rows that contribute to nothing.
    """
    if persons is None:
        return np.ones(len(codes))
    used = np.bincount(persons.codes[codes >= 0], minlength=persons.count).clip(min=1)
    return np.asarray(used[persons.codes] ** -0.5, dtype=np.float64)


def refuse_several_processes(persons: Persons | None) -> None:
    """Refuse persons whose rows may be spread over several processes."""
    if persons is not None:
        raise ValueError(
            "'person_ids' needs all rows in one process: a person with rows in two of them "
            "would be clipped in each, and count twice. Set distributed=None, or give one row "
            "of each person."
        )


def encode_persons(person_ids: Any, n_rows: int, most: int = 1) -> Persons:
    """Check one id a row, and number the persons.

    Refused are missing ids, and ids of which it is not certain when two are the same. No message
    shows an id or how many there are.
    """
    refuse_rounded(person_ids, "person_ids")
    ids = label_column(person_ids, n_rows, declared=True, name="person_ids")
    codes, found = factorized(ids)
    if bool(np.any(codes < 0)):
        raise ValueError(
            "'person_ids' has missing values, or values without a hash such as lists. Every row "
            "needs the id of its person: give the rows of an unknown person a new id, if no "
            "known person has them, or leave them out."
        )
    # Numbered by their first row in every container: an order of ids would follow from all of them.
    codes, order = pd.factorize(codes)
    found = [found[place] for place in order]
    # All cells and not only different ones: 7, 7.0 and True are equal.
    cells = ids if isinstance(ids, np.ndarray) and ids.dtype.kind == "O" else found
    types = set(map(type, cells))
    if any(issubclass(each, np.float16 | np.float32) for each in types):
        raise ValueError(_ROUNDED.format(name="person_ids"))
    unknown = sorted(each.__name__ for each in types if not issubclass(each, _EXACT))
    if unknown:
        raise ValueError(
            f"'person_ids' holds values of the type {unknown[0]}, of which it is not certain when "
            "two are the same. Turn ids into text or whole numbers."
        )
    kinds = {_kind(each) for each in types}
    if len(kinds) > 1:
        raise ValueError(
            "'person_ids' mixes kinds of values, such as numbers and texts: 7 and '7' would be two "
            "persons. Turn all ids into text, or all into whole numbers."
        )
    # The widest floats, for a narrower one would round a fraction away.
    floats = np.array([each for each in cells if isinstance(each, _FLOATS)], dtype=np.longdouble)
    if bool(np.any((floats != np.rint(floats)) | (np.abs(floats) >= 2.0**53))):
        raise ValueError(
            "'person_ids' holds floats that are not whole numbers below 2**53, so that a "
            "rounded digit could make two persons of one. Read ids as text or as integers."
        )
    return Persons(codes, len(found), most)


def refuse_rounded(ids: Any, name: str) -> None:
    """Refuse a column of ids whose type rounds them."""
    for declared in _declared_types(ids):
        if _FLOATS_OF_FEWER_BITS.search(declared) or _TIMES_THAT_ARE_CUT.search(declared):
            raise ValueError(_ROUNDED.format(name=name))


def warn_of_ids(X: Any, *, persons_known: bool) -> None:
    """Warn of columns that look like identifiers, which the data owner asked for.

    Names and numbers of different values are looked at, without noise. `persons_known`: whether
    it was said whose row it is.
    """
    if issparse(X) or isinstance(X, StoredRows) or np.ndim(X) != 2:
        raise ValueError("check_ids=True needs columns of a dense table in memory; 'X' is none.")
    if not isinstance(X, pd.DataFrame):
        X = pd.DataFrame(np.asarray(X), columns=getattr(X, "columns", None))
    repeated: list[str] = []
    different: list[str] = []
    for place, name in enumerate(X.columns):
        codes, found = factorized(X.iloc[:, place])
        n, named = int((codes >= 0).sum()), looks_like_an_identifier(name)
        if not named and (n < _ENOUGH_ROWS or len(found) < _DIFFERENT * n or _measured(found)):
            continue
        (different if len(found) == n else repeated).append(repr(name))
    what = ""
    if repeated and not persons_known:
        what += (
            f" Identifiers with several rows each, as it seems: {', '.join(repeated)}. Epsilon is "
            "about one row, and a person with several loses more. If one says whose row it is, "
            "pass it as person_ids (--person-ids)."
        )
    if different:
        what += (
            f" Another value in every row: {', '.join(different)}. As features they tell a model "
            "who is who, and nothing else. Leave them out."
        )
    if what:
        warn_user(f"Columns were looked at without noise, for you alone.{what}", PrivacyWarning)


def _measured(values: list[Any]) -> bool:
    """Whether some values are dates, or numbers that are not whole."""
    if any(isinstance(value, np.datetime64 | date) for value in values):
        return True
    text = pd.Series(map(str, values), dtype=object)  # whole numbers may be beyond float64
    with np.errstate(invalid="ignore"):  # of infinite ones
        return bool((pd.to_numeric(text, errors="coerce").astype(np.float64) % 1.0 > 0.0).any())


def _declared_types(values: Any) -> list[str]:
    """Names of the types that a column declares, in small letters; of the one column of a table."""
    if isinstance(values, pd.DataFrame):
        return [name for _, column in values.items() for name in _declared_types(column)]
    if hasattr(values, "column_names") or hasattr(values, "get_columns"):  # Arrow, polars
        columns = values.get_columns() if hasattr(values, "get_columns") else values.itercolumns()
        return [name for column in columns for name in _declared_types(column)]
    names = (n for n in ("dtype", "type", "typecode", "format") if hasattr(values, n))
    declared = getattr(values, next(names, "dtype"), "")
    if hasattr(declared, "categories"):  # polars lists them
        declared = getattr(declared.categories, "dtype", "")
    return [str(declared).lower()]


def _kind(kind: type) -> str:
    if issubclass(kind, _NUMBERS):
        return "number"
    return "text" if issubclass(kind, str) else kind.__name__
