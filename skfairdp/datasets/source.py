"""Sources of the rows of a data set, and the Bunch that every loader returns.

Rows come from a local folder, else from OpenML, else there is an error that helps.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

DATA_ENVIRONMENT_VARIABLE = "SKFAIRDP_DATA"


@dataclass(frozen=True)
class RawFile:
    """One raw file of a data set, as the loaders expect it."""

    name: str  # File name inside `data_home`
    origin: str  # Where a person gets the rows, and how to put them into this file
    # Checksum of the file that the tests and the published results of this package use
    sha256: str
    # Columns that the file must have (more are allowed); empty for a file that is not a table
    columns: Sequence[str] = ()
    openml_id: int | None = None  # Number of the same data set on openml.org, where it has it
    # Names of the columns there, in the same order, where they differ; "" for one that it lacks
    openml_columns: Sequence[str] = ()


@dataclass(frozen=True)
class Card:
    """Description of a data set without its rows: the content of its file in ``cards/``."""

    description: str
    files: Mapping[str, RawFile] = field(default_factory=dict)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    categories: Mapping[str, Sequence[str | int]] = field(default_factory=dict)
    log_columns: Sequence[str] = ()
    target_names: Sequence[str] = ()
    # The column that a sensitive feature is made of, where it has another name
    columns_of: Mapping[str, str] = field(default_factory=dict)
    leaks: Mapping[str, str] = field(default_factory=dict)  # Columns, and why they are not features
    facts: Mapping[str, Any] = field(default_factory=dict)  # What its loader alone needs to know

    @property
    def file(self) -> RawFile:
        """The only file, or the first of several."""
        return next(iter(self.files.values()))

    @property
    def docstring(self) -> str:
        """Common part of the docstrings of all loaders."""
        ids = [file.openml_id for file in self.files.values() if file.openml_id is not None]
        online = "\n    and, where the file is not there either, downloads data set {} from OpenML"
        online = online.format(*ids) if ids else ""
        names = " or ".join(f"``{file.name}``" for file in self.files.values())
        leaks = (
            "Leave out the columns that reveal the target, see ``leak_columns``."
            if self.leaks
            else "This set has no column that reveals the target; accepted for symmetry."
        )
        return _DOCSTRING.format(names=names, online=online, leaks=leaks)

    def bunch(self, features: Sequence[str], text: str, **parts: Any) -> Bunch:
        """Put declarations of `features`, the description, a further `text` and rows together."""
        return Bunch(
            **parts,
            feature_names=features,
            bounds={name: self.bounds[name] for name in features if name in self.bounds},
            categories={n: list(self.categories[n]) for n in features if n in self.categories},
            log_columns=tuple(name for name in self.log_columns if name in features),
            leak_columns=tuple(self.leaks),
            DESCR=f"{self.description.strip()}\n\n{text}",
        )


@dataclass(frozen=True, kw_only=True)
class Request:
    """Arguments that loaders share; `Card.docstring` describes them."""

    data_home: str | os.PathLike[str] | None
    include_sensitive: bool
    drop_leaks: bool
    verify: bool
    download_if_missing: bool = False
    sensitive: str | Sequence[str] | None = None  # None: the only sensitive feature of the set


_DOCSTRING = """
Parameters
----------
data_home : path-like or None
    Folder that holds {names}.
    None reads the environment variable ``SKFAIRDP_DATA``{online}.
include_sensitive : bool
    Whether `data` also has the columns that the chosen sensitive features are made of.
drop_leaks : bool
    {leaks}
download_if_missing : bool
    Whether OpenML may be asked.
verify : bool
    Compare the local file's SHA-256 with the one that published results were made with.

Raises
------
FileNotFoundError
    If the rows cannot be found; the message says where to get them.
ValueError
    If the file is not the expected one, or an argument is not one of those allowed.
"""


def read_card(name: str) -> Card:
    """Read the card of a data set."""
    card: dict[str, Any] = tomllib.loads(
        (files(__package__) / "cards" / f"{name}.toml").read_text(encoding="utf-8")
    )
    raw = {key: RawFile(**facts) for key, facts in card.pop("files", {}).items()}
    bounds = {column: (low, high) for column, (low, high) in card.pop("bounds", {}).items()}
    return Card(files=raw, bounds=bounds, **card)


def find_file(
    raw: RawFile, data_home: str | os.PathLike[str] | None, *, verify: bool = False
) -> Path | None:
    """Path of the raw file, or None where neither `data_home` nor ``SKFAIRDP_DATA`` leads to it."""
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


def read(
    card: Card,
    request: Request,
    from_openml: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows,
    file: str | None = None,
) -> tuple[pd.DataFrame, str, Callable[..., Bunch]]:
    """Read the rows of a tabular data set.

    From a local file nothing is interpreted: ``?`` and ``None`` stay text. `from_openml` brings
    OpenML's table into that shape, where more than texts and whole numbers need it. `file`: name
    of one of several files of the card.

    Returns the rows, a sentence on their source, and `assemble` with the request's choices.
    """
    raw = card.file if file is None else card.files[file]
    path = find_file(raw, request.data_home, verify=request.verify)
    if path is not None:
        source = f"file {raw.name}"
        rows = pd.read_csv(path, keep_default_na=False, low_memory=False)
        require_columns(rows, raw.columns, f"{str(path)!r}")
    elif raw.openml_id is None or not request.download_if_missing:
        raise missing(raw)
    else:
        try:
            rows = fetch_openml(data_id=raw.openml_id, as_frame=True, parser="auto").frame
        except OSError as error:  # URLError and time-outs are OSErrors
            raise missing(raw, f" and openml.org could not be read ({error})") from error
        source = f"OpenML {raw.openml_id}"
        names = dict(zip(raw.openml_columns or raw.columns, raw.columns, strict=True))
        kept = [name for there, name in names.items() if there]
        rows = rows.rename(columns=names)
        require_columns(rows, kept, source)
        rows = from_openml(rows[kept].apply(_as_in_files))
    choices = partial(
        assemble,
        sensitive=request.sensitive,
        include_sensitive=request.include_sensitive,
        drop_leaks=request.drop_leaks,
    )
    return rows, source, partial(choices, card=card, source=source)


def _as_in_files(column: pd.Series) -> pd.Series:
    """OpenML's column as it is in a file: text with "?" where it is missing, or whole numbers."""
    if not pd.api.types.is_numeric_dtype(column.dtype):
        return column.astype(object).fillna("?").astype(str).str.strip()
    return column.astype("int64") if (column % 1 == 0).all() else column


def read_arrays(
    raw: RawFile, names: Sequence[str], data_home: str | os.PathLike[str] | None, *, verify: bool
) -> dict[str, NDArray[Any]]:
    """Arrays of an ``.npz`` file."""
    path = find_file(raw, data_home, verify=verify)
    if path is None:
        raise missing(raw)
    with np.load(path) as archive:
        absent = [name for name in names if name not in archive]
        if absent:
            raise ValueError(f"{str(path)!r} lacks the arrays {absent!r}. {raw.origin}")
        return {name: archive[name] for name in names}


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


def refuse_other(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Refuse an argument that is not among those allowed."""
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}. Allowed are {allowed!r}.")


def chosen_sensitive(
    sensitive: str | Sequence[str], available: Mapping[str, pd.Series]
) -> pd.Series | pd.DataFrame:
    """The sensitive columns that the caller asked for: one as a Series, several as a DataFrame."""
    names = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    unknown = [name for name in names if name not in available]
    if unknown or not names:
        raise ValueError(
            f"sensitive is {sensitive!r}. Allowed are {sorted(available)!r}, or a list of them."
        )
    columns = [available[name].rename(name) for name in names]
    return columns[0] if isinstance(sensitive, str) else pd.concat(columns, axis=1)


def assemble(
    table: pd.DataFrame,
    *,
    card: Card,
    target: pd.Series,
    available: Mapping[str, pd.Series],
    sensitive: str | Sequence[str] | None = None,
    include_sensitive: bool,
    drop_leaks: bool,
    source: str,
    target_names: Sequence[str] | None = None,
    excluded: Sequence[str] = (),
    split: NDArray[np.object_] | None = None,
) -> Bunch:
    """Select columns and put declarations, text and rows together.

    `available`: sensitive features by name; `sensitive`: which of them, or the only one. Their
    columns are left out of the features unless `include_sensitive`. Columns of `table` that the
    card declares neither bounds nor categories for are a mistake of the loader, except for those
    in `excluded`; so a Bunch never has a feature without a declaration.
    """
    sensitive = next(iter(available)) if sensitive is None else sensitive
    groups = chosen_sensitive(sensitive, available)
    dropped = {*excluded, *(card.leaks if drop_leaks else ())}
    if not include_sensitive:
        names = [sensitive] if isinstance(sensitive, str) else sensitive
        dropped |= {card.columns_of.get(name, name) for name in names}
    features = [column for column in table.columns if column not in dropped]
    undeclared = [c for c in features if c not in card.bounds and c not in card.categories]
    if undeclared:
        raise AssertionError(f"no bounds and no categories declared for {undeclared!r}")
    data = table[features].reset_index(drop=True)
    target = target.astype("int64").reset_index(drop=True)
    groups = groups.reset_index(drop=True)
    besides = pd.DataFrame(groups).drop(columns=features, errors="ignore")
    leaks = "\n".join(f"    {name}: {why}" for name, why in card.leaks.items()) or "    none"
    text = (
        f"Leak columns ({'dropped' if drop_leaks else 'KEPT, drop_leaks=False'}):\n{leaks}\n\n"
        f"Rows read from: {source}. {len(data)} rows, {len(features)} columns in data."
    )
    return card.bunch(
        features,
        text,
        data=data,
        target=target,
        sensitive_features=groups,
        frame=pd.concat([data, besides, target], axis=1),
        target_names=list(target_names or card.target_names),
        split=split,
    )
