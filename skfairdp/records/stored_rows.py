"""Rows that are not in memory, or not as a dense array, and are read a few at a time."""

from __future__ import annotations

import hashlib
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

CHUNK = 1 << 16
# Squares of larger values overflow in float32; they are refused rather than clipped.
LARGEST = 1e18


class StoredRows(ABC):
    """Rows that are read from a file or a sparse matrix by their positions.

    `shape`: number of rows, then the shape of one. `dtype`: of the features. `cache_bytes`: memory
    for the rows of several batches, which are read at once, in the order of the file. `target`,
    `sensitive_features`: columns that come with the features.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    cache_bytes: int = 1 << 26
    target: pd.Categorical | None = None
    sensitive_features: pd.Categorical | pd.DataFrame | None = None
    _first_state: Any

    def take(self, places: NDArray[np.integer], dtype: Any = None) -> NDArray[Any]:
        """Read rows.

        Parameters
        ----------
        places : ndarray of int, shape (n,)
            Which; fastest in order.
        dtype : dtype, default=None
            Of the result; None takes that of the rows.

        Returns
        -------
        ndarray, shape (n, ...)
        """
        return self._take(places, self.dtype if dtype is None else dtype)

    def chunks(self) -> Iterator[Any]:
        """Read all rows, a part at a time.

        Yields
        ------
        ndarray or DataFrame
        """
        for places in self.places():
            yield self._as_given(self.take(places))

    def column(self, place: int) -> pd.Series:
        """Read one column of rows that have one dimension each.

        Parameters
        ----------
        place : int
            Position of the column among the features.

        Returns
        -------
        Series
        """
        return pd.Series(np.concatenate([self.take(at)[:, place] for at in self.places()]))

    def places(self) -> Iterator[NDArray[np.int64]]:
        """Positions of all rows, in blocks that fit into memory."""
        row_bytes = max(1, int(np.prod(self.shape[1:])) * self.dtype.itemsize)
        step = max(1, min(CHUNK, self.cache_bytes // row_bytes))
        for start in range(0, len(self), step):
            yield np.arange(start, min(start + step, len(self)))

    @abstractmethod
    def _take(self, places: NDArray[np.integer], dtype: Any) -> NDArray[Any]: ...

    @abstractmethod
    def _state(self) -> Any:
        """State by which changed rows are detected; a subclass keeps it as `_first_state`."""

    def _within(self) -> bool:
        """Whether all values are numbers of a size, as far as this is known before a fit."""
        tables = map(np.asarray, self.chunks())  # NaN is neither
        return all(rows.max() <= LARGEST and rows.min() >= -LARGEST for rows in tables)

    def _as_given(self, rows: NDArray[Any]) -> Any:
        return rows

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Read rows into memory, for scikit-learn's indexing."""
        places = np.arange(len(self))[key[0] if isinstance(key, tuple) else key]
        return self._as_given(self.take(np.atleast_1d(places)))

    def __deepcopy__(self, memo: Any) -> Self:
        """Return itself: nobody writes to it."""
        return self

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray[Any]:
        """Refuse to be read whole by accident."""
        raise TypeError(
            f"{type(self).__name__} are read a few rows at a time, and this needs them in memory; "
            "read them yourself if they fit."
        )


class MemmapRows(StoredRows):
    """Rows of a file that is mapped as an array."""

    def __init__(self, rows: np.memmap) -> None:
        self._rows = rows
        self.shape, self.dtype = rows.shape, rows.dtype
        self._first_state = self._state()

    def _take(self, places: NDArray[np.integer], dtype: Any) -> NDArray[Any]:
        taken = np.asarray(self._rows[places], dtype=dtype)
        # numpy keeps the map here alone; without it memory grows, and rows are the same.
        mapped = getattr(self._rows, "_mmap", None)
        if mapped is not None and self._rows.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
            # Pages that were read count as memory of this process until it gives them back.
            mapped.madvise(mmap.MADV_DONTNEED)
        return taken

    def _state(self) -> bytes:
        """Digest of rows of some pages, and of when the file was last written to."""
        places = np.unique(np.linspace(0, max(len(self) - 1, 0), 256).astype(np.int64))
        rows = self.take(places[: len(self)]).tobytes()
        return hashlib.blake2b(rows + repr(file_state(self._rows.filename)).encode()).digest()


class SparseRows(StoredRows):
    """Rows of a sparse matrix, dense a few at a time."""

    def __init__(self, rows: Any) -> None:
        if rows.ndim != 2:
            raise ValueError(f"Expected 2D array, got {rows.ndim}D sparse array instead.")
        refuse_malformed(rows)
        self._rows = csr_array(rows)
        if not self._rows.has_canonical_format:  # entries of one cell count together
            self._rows = self._rows.copy()
            self._rows.sum_duplicates()
        self.shape, self.dtype = self._rows.shape, self._rows.dtype
        self._first_state = None

    def _take(self, places: NDArray[np.integer], dtype: Any) -> NDArray[Any]:
        return self._rows[places].toarray().astype(dtype, copy=False)

    def _state(self) -> None:
        """Return nothing: nobody else writes to rows in memory."""

    def _within(self) -> bool:
        found = self._rows.data
        return not found.size or bool(found.max() <= LARGEST and found.min() >= -LARGEST)


def made_up(rows: StoredRows) -> Any:
    """Return two rows of zeros of the same kind."""
    return rows._as_given(np.zeros((2, *rows.shape[1:]), dtype=rows.dtype))


def refuse_values(rows: StoredRows) -> None:
    """Refuse rows that are known to hold a missing, infinite or too large value."""
    if not rows._within():
        raise ValueError(
            f"Input X contains NaN, infinity, missing values, or values above {LARGEST:g} in "
            "size. Clean or drop such rows first, scale them with declared bounds, or, in memory, "
            "give missing values a level (PublicBinner, PrivateTableEncoder)."
        )


def refuse_changes(rows: StoredRows) -> None:
    """Refuse rows that have changed."""
    if rows._state() != rows._first_state:
        raise ValueError(
            "'X' was changed while it was read: some rows are different now. Do not write "
            "to a file that is in use; open a rewritten file again."
        )


def refuse_malformed(X: Any) -> None:
    """Refuse a sparse table whose entries lie outside of it.

    scipy takes them, and would write them over other people's rows.
    """
    if not issparse(X):
        return
    try:
        if X.format == "coo":
            sides = zip(X.coords, X.shape, strict=True)
            fits = all(not at.size or (at.min() >= 0 and at.max() < size) for at, size in sides)
        elif fits := X.format != "lil" or [*map(len, X.rows)] == [*map(len, X.data)]:
            table = X if X.format in ("csr", "csc", "bsr") else X.tocsr()
            table.check_format(full_check=True)
    except ValueError:  # which may name the place of a row
        fits = False
    if not fits:
        raise ValueError(
            "'X' is a sparse table with entries outside of its shape, or with pointers that do "
            "not rise: build it with scipy.sparse.coo_array from rows, columns and values."
        )


def stored_rows(X: Any) -> StoredRows | None:
    """Return rows that are read in parts as such: mapped files, sparse ones; None for others."""
    if issparse(X):
        return SparseRows(X)
    mapped = isinstance(X, np.memmap) and X.filename is not None
    if mapped and X.ndim > 1 and X.dtype.kind in "biuf":
        return MemmapRows(X)
    return X if isinstance(X, StoredRows) else None


def held_and_stored(X: Any) -> tuple[Any, StoredRows | None]:
    """Split checked rows into those in memory, none or all, and where they are otherwise."""
    return (np.empty((0, *X.shape[1:])), X) if isinstance(X, StoredRows) else (X, None)


def tables_of(
    held: Any, stored: StoredRows | None, as_table: Callable[[NDArray[Any]], Any]
) -> Iterator[Any]:
    """Read all rows: those in memory at once, others a part at a time.

    `held`: tensor of the rows in memory. `stored`: where they are otherwise; None: in memory.
    `as_table`: makes such a tensor of an array.
    """
    if stored is None:
        yield held
        return
    dtype = held.cpu().numpy().dtype  # has no rows
    for places in stored.places():
        yield as_table(stored.take(places, dtype))


def with_columns_of(X: Any, y: Any, sensitive_features: Any) -> tuple[Any, Any]:
    """Return labels and groups: those given, or those that come with stored rows; never both."""
    refuse_malformed(X)
    if not isinstance(X, StoredRows):
        return y, sensitive_features
    groups = X.sensitive_features if sensitive_features is None else sensitive_features
    labels = X.target if y is None else y
    for name, used, column, own in (
        ("y", labels, "target", X.target),
        ("sensitive_features", groups, "sensitive", X.sensitive_features),
    ):
        if own is not None and used is not own:
            raise ValueError(
                f"{name!r} was given for rows that have their own, in {column!r} of "
                f"{type(X).__name__}: leave out one of the two."
            )
    return labels, groups


def in_chunks(answer: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    """Let a method that answers rows answer stored ones, a part at a time."""

    @wraps(answer)
    def answered(self: Any, X: Any) -> NDArray[Any]:
        stored = stored_rows(X)
        if stored is None:
            return answer(self, X)
        if not len(stored):
            return answer(self, stored[:0])
        refuse_changes(stored)  # Else labels that were read before would be paired with other rows
        return np.concatenate([answer(self, part) for part in stored.chunks()])

    return answered


def file_state(file: Any) -> tuple[int, int]:
    """Size of a file and when it was last written to."""
    found = Path(file).stat()
    return found.st_size, found.st_mtime_ns
