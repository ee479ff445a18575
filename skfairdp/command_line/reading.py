"""Readers of tables: CSV files of any dialect, Parquet files, and cells as people write them."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
from collections.abc import Callable, Collection
from pathlib import Path
from shlex import quote
from typing import Any

import pandas as pd

from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.files import check_exists
from skfairdp.command_line.parsing import DATES
from skfairdp.records.identifier_names import words_of
from skfairdp.records.labels import factorized
from skfairdp.records.written_numbers import MONEY, plain_number

PARQUET = (".parquet", ".pq")
# Files that are unpacked as they are read, and archives that are not.
_PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_ARCHIVES = (".zip", ".tar", ".tgz", ".7z", ".zst", ".rar")
# Files of other programs, which do not hold lines of cells, and how they begin.
_OTHERS = {
    "a workbook of a spreadsheet": (
        (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
        (b"PK\x03\x04", b"\xd0\xcf\x11\xe0"),
    ),
    "a JSON file": ((".json", ".jsonl", ".ndjson"), (b"{", b"[{", b"[[")),
}
DELIMITERS = ",;\t|"
# Bytes from which delimiter and names are read.
_SAMPLE = 1 << 16
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_AROUND = rf"[-+() ]*{MONEY}?[-+() ]*(?:%[() ]*)?"  # of the digits of an amount
_DECIMAL_COMMA = re.compile(rf"^({_AROUND}\d+),(\d+{_AROUND})$", re.ASCII | re.IGNORECASE)
# A point that groups thousands, where a comma follows that separates decimals: 1.234,50.
_THOUSANDS = re.compile(
    rf"(?<=\d)\.(?=\d{{3}}(?:\.\d{{3}})*,\d+{_AROUND}$)", re.ASCII | re.IGNORECASE
)
_IN_SINGLE_QUOTES = re.compile(r"'[^']*'\Z")
_DATE_BY_PLACES = re.compile(r"(\d\d?)([/-])(\d\d?)\2(\d{4})(?P<time>[ T].*)?", re.ASCII)
# Characters of plain numbers. A cell of these alone stays as it is, whatever other cells hold.
_PLAIN = frozenset("0123456789.+-eE \t")
_OF_DATES = re.compile(
    r"(?:^| )(?:dates?|day|dob|birthday|birthdate|[a-z]*datum|fecha|jour|naissance)(?: |$)"
)
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\Z", re.ASCII)


def read_rows(
    path: Path, inferred: Collection[str] | None = None, *, header: bool = True
) -> pd.DataFrame:
    """Read a table from a CSV or Parquet file.

    `inferred`: columns of a CSV file whose type is that of all their cells; None for every one.
    Others are texts as they are written, so that no row changes how those of others are read.
    `header`: whether the first line of a CSV file holds the names of the columns.
    """
    check_exists(path)
    if path.suffix.lower() in _ARCHIVES:
        raise CommandError(
            f"{path} is an archive; unpack it, and give the table in it. Of packed files, those "
            f"that end in {', '.join(_PACKED)} are read."
        )
    of_parquet = path.suffix.lower() in PARQUET
    if not of_parquet:
        _refuse_other_kinds(path)
    try:
        rows = _parquet(path) if of_parquet else _csv(path, inferred, header)
    except ImportError:
        raise CommandError(
            f"{path} is a Parquet file, and reading those needs pyarrow, which is not installed: "
            "pip install pyarrow, or give a CSV file."
        ) from None
    except CommandError:
        raise
    except Exception as error:  # whatever the reader makes of the file; its message may quote a row
        kind = type(error).__name__
        fields = " Does every line have as many fields as the first?" * (kind == "ParserError")
        raise CommandError(f"{path} could not be read as a table: {kind}.{fields}") from None
    if len(rows) == 0:
        raise CommandError(f"{path} has no rows.")
    # Where there is no header, these names are a person's data: they are not shown.
    if rows.columns.duplicated().any():
        raise CommandError(f"{path} has columns of the same name; give each column its own.")
    if not of_parquet and not isinstance(rows.index, pd.RangeIndex):
        # pandas then takes the first columns for names of rows.
        raise CommandError(
            f"{path} has rows with more fields than its first line has names. Is there a delimiter "
            "at the end of each line, one within a text that is not in quotes, or a title above "
            "the names of columns? Delete such lines: the first line holds the names."
        )
    rows.columns = [str(name) for name in rows.columns]
    return rows


def _refuse_other_kinds(path: Path) -> None:
    """Refuse files that would be read as one line of many thousand cells."""
    with _PACKED.get(path.suffix.lower(), open)(path, "rb") as file:
        start = file.read(_SAMPLE).removeprefix(b"\xef\xbb\xbf").lstrip()[:4]
    for kind, (endings, beginnings) in _OTHERS.items():
        if path.suffix.lower() in endings or start.startswith(beginnings):
            raise CommandError(
                f"{path} is {kind}, and only CSV and Parquet files are read. Save or export the "
                "table as CSV: one line for each row, and the names of the columns in the first."
            )


def _csv(path: Path, inferred: Collection[str] | None, header: bool) -> pd.DataFrame:
    """Read a CSV file: delimiter and encoding are found, blanks around cells are left out."""
    with _PACKED.get(path.suffix.lower(), open)(path, "rb") as file:
        sample = file.read(_SAMPLE)
    if not sample.strip():
        raise CommandError(f"{path} is empty.")
    encoding = "utf-16" if sample.startswith(_UTF_16) else "utf-8-sig"
    start = sample.decode(encoding, errors="replace").lstrip()
    # Outside of quotes the first line has most of the delimiter.
    outside = re.sub('"[^"]*"', "", start).split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=outside.count)
    names = next(csv.reader(start.splitlines()[:1], delimiter=delimiter), [])
    if not any(delimiter in start for delimiter in DELIMITERS):
        raise CommandError(
            f"{path} has one cell a line: no comma, semicolon, tab or | separates cells. Blanks do "
            "not, as they may be part of a cell. Save the table with commas: one line for each "
            "row, and the names of the columns in the first."
        )
    options: dict[str, Any] = {"sep": delimiter, "skipinitialspace": True, "dtype": str}
    if names and all(_IN_SINGLE_QUOTES.match(name) for name in names):
        options["quotechar"] = "'"
        names = [name[1:-1] for name in names]
    if not header:
        options |= {"header": None, "names": [f"column {i}" for i in range(1, len(names) + 1)]}
    elif all(not name.strip() or _NUMBER.match(name.strip()) for name in names):
        raise CommandError(
            f"The first line of {path} holds numbers and no names of columns. If the file has no "
            "names, say --no-header: the columns are then called 'column 1', 'column 2', ..."
        )
    else:
        _refuse_names_twice(path, names)
    try:
        rows = pd.read_csv(path, encoding=encoding, **options)
    except UnicodeDecodeError:
        if encoding == "utf-16":
            raise
        rows = pd.read_csv(path, encoding="latin-1", **options)
    rows.columns = [str(name).strip() for name in rows.columns]
    # A delimiter at the end of each line, or an empty column of a spreadsheet.
    unnamed = [i for i, name in enumerate(names) if header and not name.strip()]
    blank = [i for i in unnamed if i < rows.shape[1] and rows.iloc[:, i].isna().all()]
    rows = rows.iloc[:, [i for i in range(rows.shape[1]) if i not in blank]]
    for place, name in enumerate(rows.columns):
        column = rows.iloc[:, place]
        if delimiter == ";" and pd.api.types.is_string_dtype(column.dtype):
            # Who separates cells by semicolons writes decimals with a comma.
            column = column.str.replace(_THOUSANDS, "", regex=True)
            column = column.str.replace(_DECIMAL_COMMA, r"\1.\2", regex=True)
        if inferred is None or name in inferred:
            column = of_one_type(column)
        rows.isetitem(place, column)
    return rows


def _refuse_names_twice(path: Path, names: list[str]) -> None:
    """Refuse a header that names two columns alike: the reader would rename the second."""
    stripped = [name.strip() for name in names]
    twice = [i for i, name in enumerate(stripped) if name and stripped.index(name) < i]
    if twice:
        first = stripped.index(stripped[twice[0]])
        raise CommandError(
            f"{path} has columns of the same name, such as columns {first + 1} and {twice[0] + 1}; "
            "give each column its own name in the first line. If that line is a row, and the file "
            "has no names, say --no-header."
        )


def of_one_type(column: pd.Series) -> pd.Series:
    """Read texts as numbers, or as true and false, where all are; else without blanks around."""
    # Each different text is read once.
    codes, found = factorized(column)
    texts = pd.Series(found, dtype=column.dtype)
    if (codes < 0).any():
        texts = texts.reindex(range(len(texts) + 1))  # the last is missing, and of code -1
    texts = texts.str.strip()
    texts = read = texts.where(texts != "")
    if texts.notna().any():
        truths = texts.str.lower()
        numbers = pd.to_numeric(texts, errors="coerce")
        if truths.isin(["true", "false"]).all():
            read = truths == "true"
        elif not (numbers.isna() & texts.notna()).any():
            read = numbers
    return read.take(codes).set_axis(column.index).rename(column.name)


def _parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file so that no cell changes how those of other rows are read.

    Arrow would make floats of all whole numbers of a column with a missing one. A column of
    categories would list the texts of people who are held out together with those of the others.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    wrong = [
        f"{quote(field.name)} ({field.type})"
        for field in table.schema
        if pa.types.is_nested(field.type) or pa.types.is_float16(field.type)
    ]
    if wrong:
        raise CommandError(
            f"{path} has columns whose cells are lists, records or half floats, which hold no "
            f"single value: {', '.join(wrong)}. Write the file without them, or with plain columns."
        )
    rows = table.to_pandas(integer_object_nulls=True)
    for place, kind in enumerate(rows.dtypes):
        if isinstance(kind, pd.CategoricalDtype):
            rows.isetitem(place, rows.iloc[:, place].astype(object))
    return rows


def as_read(column: pd.Series, dates: str | None) -> pd.Series:
    """Write amounts and percentages as plain numbers, and declared dates with the year first.

    What is none of these stays as it is. Encoders read amounts in the same way, cell by cell.
    `dates`: the order of 3/4/2026, which no cell can tell; None: such cells stay texts.
    """
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    untouched = _PLAIN if dates is None else _PLAIN - {"-"}  # 3-4-2026 is a date
    if untouched.issuperset("".join(column.dropna().astype(str))):
        return column  # numbers alone, of which there may be millions
    codes, found = factorized(column)
    read = [_as_read(value, dates) if isinstance(value, str) else value for value in found]
    if read == found:
        return column
    texts = pd.Series([*read, None], dtype=object)
    return texts.take(codes).set_axis(column.index).rename(column.name)


def looks_like_a_date(name: str) -> bool:
    """Whether a column's name is that of a date; no value is looked at."""
    return bool(_OF_DATES.search(words_of(name)))


def _as_read(cell: str, dates: str | None) -> str:
    text = cell.strip()
    if dates is not None and (date := _DATE_BY_PLACES.fullmatch(text)) is not None:
        month, day = (date[1], date[3]) if dates == DATES[0] else (date[3], date[1])
        return f"{date[4]}-{month:0>2}-{day:0>2}{date['time'] or ''}"
    if _PLAIN.issuperset(cell) or (plain := plain_number(text)) is None:
        return cell
    return plain
