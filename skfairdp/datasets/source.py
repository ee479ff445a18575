"""Where the rows of a data set come from: a local folder, else OpenML, else an error that helps."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from sklearn.datasets import fetch_openml

__all__ = ["DATA_ENVIRONMENT_VARIABLE", "RawFile", "find_file", "read_rows"]

DATA_ENVIRONMENT_VARIABLE = "SKFAIRDP_DATA"


@dataclass(frozen=True)
class RawFile:
    """One raw file of a data set, as the loaders expect it."""

    name: str  # File name inside `data_home`
    # Columns that the file must have (more are allowed); empty for a file that is no table
    columns: tuple[str, ...]
    origin: str  # Where a person gets the rows, and how to put them into this file
    # Checksum of the file that the tests and the published results of this package use
    sha256: str
    openml_id: int | None = None  # Number of the same data set on openml.org, where it has it


def find_file(
    raw: RawFile, data_home: str | os.PathLike[str] | None, *, verify: bool = False
) -> Path | None:
    """Path of the raw file, or None where neither argument nor environment leads to it.

    `data_home`: a folder. None reads the environment variable ``SKFAIRDP_DATA``. `verify`:
    compare the SHA-256 checksum.
    """
    folder = data_home if data_home is not None else os.environ.get(DATA_ENVIRONMENT_VARIABLE)
    if not folder:
        return None
    path = Path(folder).expanduser() / raw.name
    if not path.is_file():
        if data_home is None:
            return None
        raise FileNotFoundError(f"data_home={str(folder)!r} holds no {raw.name!r}. {raw.origin}")
    if verify:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != raw.sha256:
            raise ValueError(
                f"{str(path)!r} has SHA-256 {found}, expected {raw.sha256}. It is not the file "
                "that the published results were made with; get it again, or set verify=False to "
                "use it as it is."
            )
    return path


def read_rows(
    raw: RawFile,
    data_home: str | os.PathLike[str] | None,
    *,
    download_if_missing: bool = True,
    verify: bool = False,
) -> tuple[pd.DataFrame, str]:
    """Rows of a tabular data set and a sentence on their source.

    From a local file nothing is interpreted: ``?`` and ``None`` stay text. From OpenML the frame is
    what :func:`sklearn.datasets.fetch_openml` gives, and the loader brings it into the same shape.

    Result `rows`: the raw table; `source`: ``"file <name>"`` or ``"OpenML <id>"``. Raises
    FileNotFoundError: if the rows can be found nowhere; the message says how to get them. Raises
    ValueError: if the file is not the expected table.
    """
    path = find_file(raw, data_home, verify=verify)
    if path is not None:
        rows = pd.read_csv(path, keep_default_na=False, low_memory=False)
        require_columns(rows, raw.columns, f"{str(path)!r}")
        return rows, f"file {raw.name}"
    if raw.openml_id is None or not download_if_missing:
        raise missing(raw)
    try:
        rows = fetch_openml(data_id=raw.openml_id, as_frame=True, parser="auto").frame
    except OSError as error:  # URLError and time-outs are OSErrors
        raise missing(raw, f" and openml.org could not be read ({error})") from error
    return rows, f"OpenML {raw.openml_id}"


def missing(raw: RawFile, why: str = "") -> FileNotFoundError:
    """The error for rows that can be found nowhere."""
    return FileNotFoundError(
        f"{raw.name!r} was not found{why}. Put it into a folder and name the folder by "
        f"data_home=... or by the environment variable {DATA_ENVIRONMENT_VARIABLE}. {raw.origin}"
    )


def require_columns(rows: pd.DataFrame, columns: Sequence[str], origin: str) -> None:
    """Refuse a table that lacks an expected column."""
    absent = [column for column in columns if column not in rows.columns]
    if absent:
        raise ValueError(
            f"{origin} lacks the columns {absent!r}; it has {list(rows.columns)!r}. It is not the "
            "expected file: get it again, from the place that the loader's docstring names."
        )
