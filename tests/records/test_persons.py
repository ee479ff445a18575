"""Ids of persons: two that differ are never read as one, and two that are equal as two."""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

from skfairdp.records import persons
from skfairdp.records.persons import encode_persons

# Neighbours that are one number in 32 bits, and one time to the microsecond.
CLOSE = [2**24, 2**24 + 1, 2**24 + 2, 2**24]


def floats() -> np.ndarray:
    return np.array(CLOSE, dtype=np.float32)


def arrow() -> Any:
    return pa.array(floats())


ROUNDED: dict[str, Callable[[], Any]] = {
    "array of the other byte order": lambda: np.array(CLOSE, dtype=">f4"),
    "table": lambda: pd.DataFrame({"id": floats()}),
    "half floats in a table": lambda: pd.DataFrame({"id": np.array([1, 2, 3, 1], np.float16)}),
    "categories": lambda: pd.Categorical(floats()),
    "categories of Arrow": lambda: pd.Categorical(pd.Series(floats(), dtype="float[pyarrow]")),
    "floats of Arrow in pandas": lambda: pd.Series(floats(), dtype="float[pyarrow]"),
    "sparse": lambda: pd.Series(pd.arrays.SparseArray(floats())),
    "arrow": arrow,
    "chunks": lambda: pa.chunked_array([arrow()]),
    "arrow table": lambda: pa.table({"id": arrow()}),
    "dictionary": lambda: arrow().dictionary_encode(),
    "runs": lambda: pc.run_end_encode(arrow()),
    "buffer": lambda: memoryview(floats()),
    "array of the standard library": lambda: array.array("f", CLOSE),
    "tensor": lambda: torch.tensor(CLOSE, dtype=torch.float32),
    "scalars": lambda: list(floats()),
    "times of Arrow": lambda: pa.array(CLOSE, pa.time64("ns")),
    "picoseconds": lambda: np.array(CLOSE, dtype="M8[ps]"),
    "durations": lambda: np.array(CLOSE, dtype="m8[as]"),
}
NOT_OF_ONE_KIND: dict[str, Callable[[], Any]] = {
    "tensors": lambda: [torch.tensor(each) for each in CLOSE],
    "objects": lambda: [object(), object(), object(), object()],
    "scalars of Arrow": lambda: list(pa.array(CLOSE)),
    "complex": lambda: np.array(CLOSE, dtype=np.complex64),
    "records": lambda: np.array([(each,) for each in CLOSE], dtype=[("id", "i8")]),
    "set": lambda: {1, 2, 3, 4},
}


def zoned(hours: int) -> datetime.datetime:
    """One moment, as the clock of a time zone has it."""
    tz = datetime.timezone(datetime.timedelta(hours=hours))
    return datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC).astimezone(tz)


def of_polars() -> Iterator[Any]:
    polars = pytest.importorskip("polars")
    yield polars.Series(floats())
    yield polars.DataFrame({"id": floats()})
    for kind in (polars.Datetime("ns"), polars.Duration("ns"), polars.Time):
        yield polars.Series(CLOSE, dtype=polars.Int64).cast(kind)


@pytest.mark.parametrize("kind", ROUNDED)
def test_ids_that_rounding_could_merge_are_refused_in_every_container(kind: str) -> None:
    with pytest.raises(ValueError, match="'person_ids' holds floats of 16 or 32 bits, or times"):
        encode_persons(ROUNDED[kind](), 4)


def test_ids_of_polars_that_rounding_could_merge_are_refused() -> None:
    for column in of_polars():
        with pytest.raises(ValueError, match="'person_ids' holds floats of 16 or 32 bits, or time"):
            encode_persons(column, 4)


@pytest.mark.parametrize("kind", NOT_OF_ONE_KIND)
def test_ids_of_which_it_is_not_certain_when_two_are_the_same_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="'person_ids'"):
        encode_persons(NOT_OF_ONE_KIND[kind](), 4)


def test_equal_ids_do_not_hide_one_of_another_kind() -> None:
    """Two that are equal have one place in a table of different values."""
    for hidden in (decimal.Decimal(7), fractions.Fraction(7), complex(7), np.float32(7)):
        with pytest.raises(ValueError, match="'person_ids'"):
            encode_persons([7, 8, 9, hidden], 4)
    with pytest.raises(ValueError, match=r"below 2\*\*53"):
        encode_persons([2**53, 2**53 + 1, 5, 2.0**53], 4)
    with pytest.raises(ValueError, match=r"below 2\*\*53"):
        encode_persons([1, 2, 3, np.longdouble(1) + np.longdouble(2) ** -60], 4)


@pytest.mark.parametrize(
    "ids",
    [
        [10**400, 10**400 + 1, 5, 10**400],
        [1, 2.0, 3, True],
        [zoned(0), zoned(9) + datetime.timedelta(hours=1), zoned(3).replace(year=2025), zoned(9)],
        pa.array([b"a", b"b", b"a\0", b"a"], pa.binary()),
        pa.array([2**60, 2**60 + 1, 2**60 + 2, 2**60], pa.timestamp("ns")),
        np.array([2**60, 2**60 + 1, 2**60 + 2, 2**60], dtype="M8[ns]"),
        pd.Series(["", " ", "\0", ""], dtype="string"),
        [np.datetime64("2026-01-01"), np.datetime64("2027"), np.datetime64("2028"),
         np.datetime64("2026-01-01T00:00")],
    ],
    ids=lambda ids: type(ids[0]).__name__,
)  # fmt: skip
def test_ids_are_persons_as_they_are_equal(ids: Any) -> None:
    assert encode_persons(ids, 4).codes.tolist() == [0, 1, 2, 0]


def test_a_reader_that_looks_at_arrays_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persons, "_declared_types", lambda values: [str(values.type)[:0]])
    assert encode_persons(arrow(), 4).count < len(set(CLOSE))


def test_persons_are_numbered_by_their_first_row_in_every_container() -> None:
    """A new id of one row must not change the numbers of the others."""
    ids = [7, 3, 7, 5]
    for container in (list, np.array, pd.Series, pd.Categorical):
        for first in (7, 1):
            given = [first, *ids[1:]]
            expected = [0, 1, 0, 2] if first == 7 else [0, 1, 2, 3]
            assert encode_persons(container(given), 4).codes.tolist() == expected
