"""Rows of Arrow tables and Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skfairdp.records.stored_rows import CHUNK, LARGEST, StoredRows, file_state

_MOST_CATEGORIES = 1 << 15


class _Piece(NamedTuple):
    """Consecutive rows of a source, and how to read columns of them in parts."""

    n_rows: int
    read: Callable[[list[str]], Iterator[Any]]  # yields record batches


class ParquetRows(StoredRows):
    """Rows of an Arrow table, of a Parquet file, or of all Parquet files in a folder.

    Give them to `fit`, `predict` or `skfairdp.certify` as X; labels and groups come with them. Of
    the features no more than a part of a row group and the drawn rows of some batches are in
    memory. Needs pyarrow (``pip install skfairdp[scale]``).

    Parameters
    ----------
    source : str, path or pyarrow.Table
        File, folder of files with the same columns, in the order of their names, or a table.
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
        For files with different columns, columns that are absent, named twice or hold no numbers.

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
        source: Any,
        *,
        features: Sequence[str],
        target: str | None = None,
        sensitive: str | Sequence[str] | None = None,
        cache_bytes: int = 1 << 26,
    ) -> None:
        others = [sensitive] if isinstance(sensitive, str) else list(sensitive or ())
        self.features = list(features)
        self.cache_bytes = int(cache_bytes)
        self._metadata: dict[Path, Any] = {}
        wanted = dict.fromkeys([*features, *([] if target is None else [target]), *others])
        for names in (self.features, others):
            if twice := [name for name in names if name == target or names.count(name) > 1]:
                raise ValueError(
                    f"The column {twice[0]!r} is named twice by 'features', by 'sensitive', or by "
                    "one of them and 'target': name it once, or the label may become a feature."
                )
        if isinstance(source, str | Path):
            schema = self._open(Path(source), list(wanted))
        else:
            schema, self._pieces = source.schema, [_Piece(source.num_rows, self._read_table)]
            self._table = source
        absent = [name for name in wanted if name not in schema.names]
        if absent or not self.features:
            raise ValueError(
                f"The rows have no column {', '.join(map(repr, absent)) or 'to learn from'}; their "
                f"columns are {schema.names!r}."
            )
        kinds = [_kind(name, schema.field(name).type) for name in self.features]
        self.dtype = np.result_type(*kinds)
        self.shape = (sum(piece.n_rows for piece in self._pieces), len(kinds))
        for name in (*others, *([] if target is None else [target])):
            _refuse_no_labels(name, schema.field(name).type)
        groups = {name: self._categories(name) for name in others}
        self.target = None if target is None else self._categories(target)
        self.sensitive_features = pd.DataFrame(groups) if len(groups) > 1 else None
        if len(groups) == 1:
            (self.sensitive_features,) = groups.values()
        self._first_state = self._state()

    def _read_table(self, columns: list[str]) -> Iterator[Any]:
        yield from self._table.select(columns).to_batches(max_chunksize=CHUNK)

    def _open(self, where: Path, wanted: list[str]) -> Any:
        """Find the files; the schema of the first one."""
        try:
            import pyarrow.parquet as pq
        except ImportError as error:
            raise ImportError("ParquetRows needs pyarrow: pip install skfairdp[scale]") from error
        files = sorted(where.rglob("*.parquet")) if where.is_dir() else [where]
        if not files:
            raise ValueError(f"There is no file *.parquet in {str(where)!r}.")
        self._metadata = {file: pq.read_metadata(file) for file in files}
        schemas = {file: m.schema.to_arrow_schema() for file, m in self._metadata.items()}
        first = schemas[files[0]]
        for file, schema in schemas.items():
            both = (first, schema)
            for name in wanted:
                kinds = [s.field(name).type if name in s.names else "absent" for s in both]
                if kinds[0] != kinds[1]:
                    raise ValueError(
                        f"The files have different columns: {name!r} is {kinds[0]} in "
                        f"{files[0].name!r} and {kinds[1]} in {file.name!r}. Write them with one "
                        "schema."
                    )
        self._pieces = [
            self._piece(file, i, metadata.row_group(i).num_rows)
            for file, metadata in self._metadata.items()
            for i in range(metadata.num_row_groups)
        ]
        return first

    def _piece(self, file: Path, group: int, n_rows: int) -> _Piece:
        import pyarrow.parquet as pq

        def read(columns: list[str]) -> Iterator[Any]:
            with pq.ParquetFile(file, metadata=self._metadata[file], buffer_size=CHUNK) as opened:
                yield from opened.iter_batches(
                    CHUNK, row_groups=[group], columns=columns, use_threads=False
                )

        return _Piece(n_rows, read)

    def _within(self) -> bool:
        """Ask the statistics of the row groups; look at the values of a table."""
        if not self._metadata:
            return super()._within()
        groups = (m.row_group(i) for m in self._metadata.values() for i in range(m.num_row_groups))
        columns = (group.column(j) for group in groups for j in range(group.num_columns))
        known = [c.statistics for c in columns if c.path_in_schema in self.features]
        return not any(
            (one.has_null_count and one.null_count > 0)
            or (one.has_min_max and not -LARGEST <= one.min <= one.max <= LARGEST)
            for one in known
            if one is not None
        )

    def _state(self) -> Any:
        """When the files were last written to."""
        return [file_state(file) for file in self._metadata]

    def _take(self, places: NDArray[np.integer], dtype: Any) -> NDArray[Any]:
        order = np.argsort(places, kind="stable")
        ordered = np.asarray(places)[order]
        taken = np.empty((len(places), len(self.features)), dtype=dtype)
        ends = np.cumsum([piece.n_rows for piece in self._pieces])
        for piece, end in zip(self._pieces, ends, strict=True):
            start = end - piece.n_rows
            if np.subtract(*np.searchsorted(ordered, (end, start))) == 0:
                continue
            for batch in piece.read(self.features):
                of_batch = slice(*np.searchsorted(ordered, (start, start + batch.num_rows)))
                within, start = ordered[of_batch] - start, start + batch.num_rows
                for j, name in enumerate(self.features if len(within) else ()):
                    with np.errstate(over="ignore"):  # infinity is dealt with
                        taken[order[of_batch], j] = _numbers(batch.column(name), within, dtype)
        return taken

    def chunks(self) -> Iterator[pd.DataFrame]:
        """Read all rows in one pass, a part at a time.

        Yields
        ------
        DataFrame
        """
        step = len(next(self.places(), ()))
        for batch in (batch for piece in self._pieces for batch in piece.read(self.features)):
            for part in (batch.slice(start, step) for start in range(0, batch.num_rows, step)):
                rows = np.empty((part.num_rows, len(self.features)), dtype=self.dtype)
                for j, name in enumerate(self.features):
                    with np.errstate(over="ignore"):  # infinity is dealt with
                        rows[:, j] = _numbers(part.column(name), slice(None), self.dtype)
                yield self._as_given(rows)

    def column(self, place: int) -> pd.Series:
        """Read one column, and no other.

        Parameters
        ----------
        place : int
            Position of the column among the features.

        Returns
        -------
        Series
        """
        name = self.features[place]
        batches = (batch for piece in self._pieces for batch in piece.read([name]))
        parts = [_numbers(batch.column(0), slice(None), self.dtype) for batch in batches]
        return pd.Series(np.concatenate(parts), name=name)

    def _as_given(self, rows: NDArray[Any]) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=self.features)

    def _categories(self, name: str) -> pd.Categorical:
        """Read a column of labels: one small code a row."""
        known: dict[Any, int] = {}
        codes = np.empty(len(self), dtype=np.int16)
        start = 0
        for batch in (batch for piece in self._pieces for batch in piece.read([name])):
            column = batch.column(0)
            encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
            values = encoded.dictionary.to_pylist()
            # In the index's own type a null could not be distinguished from the last of 128 values.
            places = encoded.indices.cast("int64").fill_null(len(values)).to_numpy()
            occurs = np.bincount(places, minlength=len(values) + 1) > 0
            # None, and a NaN, which is not itself, are missing; values of no row are not listed.
            of_value = [
                known.setdefault(value, len(known))
                if here and value is not None and value == value
                else -1
                for value, here in zip(values, occurs[:-1], strict=True)
            ]
            if len(known) > _MOST_CATEGORIES:
                raise ValueError(
                    f"The column {name!r} has more than {_MOST_CATEGORIES:,} values: a target and "
                    "sensitive features are categories."
                )
            codes[start : start + batch.num_rows] = np.array([*of_value, -1])[places]
            start += batch.num_rows
        return pd.Categorical.from_codes(codes, categories=list(known))


def _numbers(column: Any, within: NDArray[np.integer] | slice, dtype: Any) -> NDArray[Any]:
    """Some cells of a column, each turned into `dtype` by itself; missing ones are NaN.

    Asked for an array, Arrow makes floats of all integers of a batch if one of them is missing.
    """
    plain = column.fill_null(False if column.type == "bool" else 0) if column.null_count else column
    cells = plain.to_numpy(zero_copy_only=False)[within].astype(dtype)
    if column.null_count:
        cells[column.is_null().to_numpy(zero_copy_only=False)[within]] = np.nan
    return cells


def _kind(name: str, kind: Any) -> Any:
    """Type that holds a column's numbers; float32 where that holds them all."""
    import pyarrow as pa

    known = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not known or pa.types.is_float16(kind):
        raise ValueError(
            f"The column {name!r} is {kind}. Features are whole numbers, float32, float64 or truth "
            "values. Before the file is written, encode text with declared categories, turn dates "
            "into numbers, and cast half floats and decimals to float64."
        )
    return np.result_type(np.float32, kind.to_pandas_dtype())


def _refuse_no_labels(name: str, kind: Any) -> None:
    """Refuse a target or sensitive feature whose type has no values that can be listed."""
    import pyarrow as pa

    of = kind.value_type if pa.types.is_dictionary(kind) else kind
    text = (pa.types.is_string(of), pa.types.is_large_string(of), pa.types.is_string_view(of))
    number = (pa.types.is_integer(of), pa.types.is_boolean(of), pa.types.is_decimal(of))
    real = pa.types.is_floating(of) and not pa.types.is_float16(of)
    if not any((*text, *number, real, pa.types.is_date(of), pa.types.is_timestamp(of))):
        raise ValueError(
            f"The column {name!r} is {kind}. A target and sensitive features are text, whole "
            "numbers, floats of 32 or 64 bits, truth values, decimals or dates, or categories of "
            "these: cast the column before the file is written."
        )
