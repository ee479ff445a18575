"""Rows that stay on disk, or in an Arrow table, and are read a few at a time."""

from __future__ import annotations

import hashlib
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = [
    "ArrowRows",
    "MemmapRows",
    "ParquetRows",
    "StoredRows",
    "in_chunks",
    "stored_rows",
    "with_columns_of",
]

_CHUNK = 1 << 16
_MOST_CATEGORIES = 1 << 15


class StoredRows(ABC):
    """Rows of features that are read by their places.

    Attributes
    ----------
    shape : tuple of int
        Number of rows, then the shape of one.
    dtype : numpy.dtype
        Of a row's features.
    cache_bytes : int
        Memory for the rows of several batches, which are read at once, in the order of the file.
    target, sensitive_features : Categorical, DataFrame of them, or None
        Columns that are kept beside the features.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    cache_bytes: int = 1 << 26
    target: pd.Categorical | None = None
    sensitive_features: pd.Categorical | pd.DataFrame | None = None

    @abstractmethod
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

    @abstractmethod
    def refuse_values(self, largest: float) -> None:
        """Refuse rows that are known to hold a missing, infinite or too large value.

        Parameters
        ----------
        largest : float
            Largest size of a value that is allowed.

        Raises
        ------
        ValueError
        """

    @abstractmethod
    def refuse_changes(self) -> None:
        """Refuse rows that are no longer what they were when this was made.

        Raises
        ------
        ValueError
        """

    def like(self) -> Any:
        """Return two made-up rows of zeros.

        Returns
        -------
        ndarray or DataFrame
        """
        return self._as_given(np.zeros((2, *self.shape[1:]), dtype=self.dtype))

    def chunks(self) -> Iterator[Any]:
        """Read all rows, a part at a time, as `like` gives them.

        Yields
        ------
        ndarray or DataFrame
        """
        for start in range(0, len(self), _CHUNK):
            places = np.arange(start, min(start + _CHUNK, len(self)))
            yield self._as_given(self.take(places))

    def _as_given(self, rows: NDArray[Any]) -> Any:
        return rows

    def _scan(self, largest: float) -> None:
        """Refuse values by looking at all of them."""
        for part in self.chunks():
            values = np.asarray(part)
            if not (values.max() <= largest and values.min() >= -largest):  # NaN is neither
                raise ValueError(_values_refused(largest))

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Read rows into memory, for scikit-learn's indexing."""
        return self._as_given(self.take(np.asarray(key[0] if isinstance(key, tuple) else key)))

    def __deepcopy__(self, memo: Any) -> Self:
        """Return itself: nobody writes to it."""
        return self

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray[Any]:
        """Refuse to be read whole without a word."""
        raise TypeError(
            f"{type(self).__name__} are read a few rows at a time, and this needs them in memory; "
            "read them yourself if they fit."
        )


class MemmapRows(StoredRows):
    """Rows of a file that is mapped as an array.

    Parameters
    ----------
    rows : numpy.memmap, shape (n, ...)
        Numbers.
    """

    def __init__(self, rows: np.memmap) -> None:
        self._rows = rows
        self.shape, self.dtype = rows.shape, rows.dtype
        self._seen = self._digest()

    def take(self, places: NDArray[np.integer], dtype: Any = None) -> NDArray[Any]:
        taken = np.asarray(self._rows[places], dtype=dtype)
        mapped = getattr(self._rows, "_mmap", None)
        if mapped is not None and self._rows.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
            # Pages that were read count as memory of this process until it gives them back.
            mapped.madvise(mmap.MADV_DONTNEED)
        return taken

    def refuse_values(self, largest: float) -> None:
        self._scan(largest)

    def refuse_changes(self) -> None:
        if self._digest() != self._seen:
            raise ValueError(_CHANGED)

    def _digest(self) -> bytes:
        """Digest of some rows, and when the file was last written to."""
        places = np.unique(np.linspace(0, len(self) - 1, 256).astype(np.int64))
        rows = self.take(places).tobytes() if len(self) else b""
        return hashlib.blake2b(rows + repr(_stamp(self._rows.filename)).encode()).digest()


class _Piece(NamedTuple):
    """Consecutive rows of a source, and how to read columns of them in parts."""

    n_rows: int
    read: Callable[[list[str]], Iterator[Any]]  # yields record batches


class ArrowRows(StoredRows):
    """Rows of an Arrow table.

    Parameters
    ----------
    table : pyarrow.Table
        Rows in memory, or in a file that Arrow has mapped.
    features : sequence of str
        Columns of numbers, in the order in which a model gets them.
    target : str or None, default=None
        Column of labels.
    sensitive : str, sequence of str or None, default=None
        Columns of sensitive features.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from skfairdp.datasets import ArrowRows
    >>> table = pa.table({"income": [1.0, 2.0], "debt": [0, 1], "paid": ["no", "yes"]})
    >>> rows = ArrowRows(table, features=["income", "debt"], target="paid")
    >>> rows.shape, list(rows.target)
    ((2, 2), ['no', 'yes'])
    """

    def __init__(
        self,
        table: Any,
        *,
        features: Sequence[str],
        target: str | None = None,
        sensitive: str | Sequence[str] | None = None,
    ) -> None:
        self._table = table
        self._open(table.schema, [_Piece(table.num_rows, self._read)], features, target, sensitive)

    def _read(self, columns: list[str]) -> Iterator[Any]:
        yield from self._table.select(columns).to_batches(max_chunksize=_CHUNK)

    def _open(
        self,
        schema: Any,
        pieces: list[_Piece],
        features: Sequence[str],
        target: str | None,
        sensitive: str | Sequence[str] | None,
    ) -> None:
        self._pieces = pieces
        self.features = list(features)
        others = [sensitive] if isinstance(sensitive, str) else list(sensitive or ())
        wanted = [*self.features, *([] if target is None else [target]), *others]
        absent = [name for name in wanted if name not in schema.names]
        if absent or not self.features:
            raise ValueError(
                f"The rows have no column {', '.join(map(repr, absent)) or 'to learn from'}; their "
                f"columns are {schema.names!r}."
            )
        kinds = [_numpy_dtype(name, schema.field(name).type) for name in self.features]
        self.shape = (sum(piece.n_rows for piece in pieces), len(self.features))
        self.dtype = np.result_type(*kinds)
        if target is not None:
            self.target = self._categories(target)
        if len(others) == 1:
            self.sensitive_features = self._categories(others[0])
        elif others:
            self.sensitive_features = pd.DataFrame({n: self._categories(n) for n in others})

    def take(self, places: NDArray[np.integer], dtype: Any = None) -> NDArray[Any]:
        order = np.argsort(places, kind="stable")
        ordered = np.asarray(places)[order]
        taken = np.empty((len(places), len(self.features)), dtype=dtype or self.dtype)
        ends = np.cumsum([piece.n_rows for piece in self._pieces])
        for piece, end in zip(self._pieces, ends, strict=True):
            start = end - piece.n_rows
            if np.subtract(*np.searchsorted(ordered, (end, start))) == 0:
                continue
            for batch in piece.read(self.features):
                of_batch = slice(*np.searchsorted(ordered, (start, start + batch.num_rows)))
                within, start = ordered[of_batch] - start, start + batch.num_rows
                for j, name in enumerate(self.features if len(within) else ()):
                    column = batch.column(name).to_numpy(zero_copy_only=False)[within]
                    with np.errstate(over="ignore"):  # an infinite number is dealt with
                        taken[order[of_batch], j] = column
        return taken

    def refuse_values(self, largest: float) -> None:
        self._scan(largest)

    def refuse_changes(self) -> None:
        """Do nothing: Arrow tables cannot be changed."""

    def _as_given(self, rows: NDArray[Any]) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=self.features)

    def _categories(self, name: str) -> pd.Categorical:
        """Read a column of labels: one small code a row."""
        known: dict[Any, int] = {}
        codes = np.empty(len(self), dtype=np.int16)
        start = 0
        for piece in self._pieces:
            for batch in piece.read([name]):
                encoded = batch.column(0)
                if not hasattr(encoded, "dictionary"):
                    encoded = encoded.dictionary_encode()
                # None, and a NaN, which is not itself, are missing.
                of_value = [
                    -1 if value is None or value != value else known.setdefault(value, len(known))
                    for value in encoded.dictionary.to_pylist()
                ]
                if len(known) > _MOST_CATEGORIES:
                    raise ValueError(
                        f"The column {name!r} has more than {_MOST_CATEGORIES:,} values: a target "
                        "and sensitive features are categories."
                    )
                places = encoded.indices.fill_null(len(of_value)).to_numpy()
                codes[start : start + batch.num_rows] = np.array([*of_value, -1])[places]
                start += batch.num_rows
        return pd.Categorical.from_codes(codes, categories=list(known))


class ParquetRows(ArrowRows):
    """Rows of a Parquet file, or of all Parquet files in a folder.

    Give them to `fit`, `predict` or `skfairdp.certify` as X; labels and groups come with them. No
    more than a part of a row group and `cache_bytes` of drawn rows is in memory. Needs pyarrow
    (``pip install skfairdp[scale]``).

    Parameters
    ----------
    path : str or path
        File, or folder of files with the same columns; rows come in the order of file names.
    features : sequence of str
        Columns of numbers, in the order in which a model gets them.
    target : str or None, default=None
        Column of labels.
    sensitive : str, sequence of str or None, default=None
        Columns of sensitive features.
    cache_bytes : int, default=2**26
        Memory for the drawn rows of the next batches, which are read in one pass over the files:
        twice as much halves the number of passes.

    Raises
    ------
    ImportError
        Without pyarrow.
    ValueError
        For files with different columns, columns that are absent or hold no numbers.

    Notes
    -----
    Missing, infinite and huge numbers are refused before anything is charged where the
    statistics of a row group show them. A row with one that they do not show (NaN, in files that
    do not write it as missing) contributes nothing to any sum, as if it had not been drawn.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from skfairdp.datasets import ParquetRows
    >>> table = pa.table({"income": [1.0, 2.0], "debt": [0, 1], "paid": ["no", "yes"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, f"{folder}/loans.parquet")
    ...     rows = ParquetRows(folder, features=["income", "debt"], target="paid")
    >>> len(rows), list(rows.target)
    (2, ['no', 'yes'])
    """

    def __init__(
        self,
        path: str | Path,
        *,
        features: Sequence[str],
        target: str | None = None,
        sensitive: str | Sequence[str] | None = None,
        cache_bytes: int = 1 << 26,
    ) -> None:
        try:
            import pyarrow.parquet as pq
        except ImportError as error:
            raise ImportError("ParquetRows needs pyarrow: pip install skfairdp[scale]") from error
        where = Path(path)
        files = sorted(where.rglob("*.parquet")) if where.is_dir() else [where]
        if not files:
            raise ValueError(f"There is no file *.parquet in {str(where)!r}.")
        self.cache_bytes = int(cache_bytes)
        self._stamps = {file: _stamp(file) for file in files}
        self._metadata = {file: pq.read_metadata(file) for file in files}
        pieces, first = [], self._metadata[files[0]].schema.to_arrow_schema()
        others = [sensitive] if isinstance(sensitive, str) else sensitive or ()
        wanted = {*features, *others, *([] if target is None else [target])}
        for file, metadata in self._metadata.items():
            schema = metadata.schema.to_arrow_schema()
            for name in sorted(wanted & {*first.names, *schema.names}):
                types = [s.field(name).type if name in s.names else None for s in (first, schema)]
                if types[0] != types[1]:
                    raise ValueError(
                        f"The files have different columns: {name!r} is {types[0]} in "
                        f"{files[0].name!r} and {types[1] or 'absent'} in {file.name!r}. Write "
                        "them with one schema."
                    )
            for group in range(metadata.num_row_groups):
                pieces.append(self._piece(file, group, metadata.row_group(group).num_rows))
        self._open(first, pieces, features, target, sensitive)

    def _piece(self, file: Path, group: int, n_rows: int) -> _Piece:
        import pyarrow.parquet as pq

        def read(columns: list[str]) -> Iterator[Any]:
            with pq.ParquetFile(file, metadata=self._metadata[file], buffer_size=_CHUNK) as opened:
                yield from opened.iter_batches(
                    _CHUNK, row_groups=[group], columns=columns, use_threads=False
                )

        return _Piece(n_rows, read)

    def refuse_values(self, largest: float) -> None:
        for metadata in self._metadata.values():
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                for column in map(group.column, range(group.num_columns)):
                    known = column.statistics
                    if known is None or column.path_in_schema not in self.features:
                        continue
                    missing = known.has_null_count and known.null_count > 0
                    wide = known.has_min_max and not (
                        -largest <= known.min and known.max <= largest
                    )
                    if missing or wide:
                        raise ValueError(_values_refused(largest))

    def refuse_changes(self) -> None:
        if any(_stamp(file) != stamp for file, stamp in self._stamps.items()):
            raise ValueError(_CHANGED)


def stored_rows(X: Any) -> StoredRows | None:
    """Return rows that are not in memory as such; None for others.

    Parameters
    ----------
    X : anything
        A mapped file or `StoredRows`.

    Returns
    -------
    StoredRows or None
    """
    mapped = isinstance(X, np.memmap) and X.filename is not None
    if mapped and X.ndim > 1 and X.dtype.kind in "biuf":
        return MemmapRows(X)
    return X if isinstance(X, StoredRows) else None


def with_columns_of(X: Any, y: Any, sensitive_features: Any) -> tuple[Any, Any]:
    """Return labels and groups: those given, or else those that come with stored rows.

    Parameters
    ----------
    X : anything
        Rows.
    y, sensitive_features : anything
        As given; None for those of the rows.

    Returns
    -------
    y, sensitive_features : anything
    """
    if not isinstance(X, StoredRows):
        return y, sensitive_features
    groups = X.sensitive_features if sensitive_features is None else sensitive_features
    return X.target if y is None else y, groups


def in_chunks(answer: Callable[..., NDArray[Any]]) -> Callable[..., NDArray[Any]]:
    """Let a method that answers rows answer stored ones, a part at a time.

    Parameters
    ----------
    answer : callable
        Method that takes rows in memory.

    Returns
    -------
    callable
    """

    @wraps(answer)
    def answered(self: Any, X: Any) -> NDArray[Any]:
        stored = stored_rows(X)
        if stored is None:
            return answer(self, X)
        return np.concatenate([answer(self, part) for part in stored.chunks()])

    return answered


_CHANGED = (
    "'X' was changed while it was read: some rows are no longer what they were. Nothing may write "
    "to the file of a fit that runs."
)


def _values_refused(largest: float) -> str:
    return (
        "Input X contains NaN, infinity, missing values, or values above "
        f"{largest:g} in size. Clean or drop such rows first, or scale them with declared bounds."
    )


def _stamp(file: Any) -> tuple[int, int]:
    found = Path(file).stat()
    return found.st_size, found.st_mtime_ns


def _numpy_dtype(name: str, kind: Any) -> Any:
    """Type that holds a column's numbers; float32 where that holds them all."""
    import pyarrow as pa

    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ValueError(
            f"The column {name!r} is {kind}, not numbers. Encode text with declared categories, "
            "and turn dates into numbers, before the file is written."
        )
    return np.result_type(np.float32, kind.to_pandas_dtype())
