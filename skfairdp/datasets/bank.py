"""UCI Bank Marketing: who subscribes to a term deposit?"""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from .assembly import assemble, chosen_sensitive
from .source import RawFile, read_rows, require_columns

__all__ = ["fetch_bank"]

_FEATURES = (
    "age", "job", "marital", "education", "default", "balance", "housing", "loan", "contact",
    "day", "month", "duration", "campaign", "pdays", "previous", "poutcome",
)  # fmt: skip

_FULL = RawFile(
    name="bank_full.csv.gz",
    columns=(*_FEATURES, "y"),
    origin=(
        "It is bank-full.csv of UCI Bank Marketing "
        "(https://archive.ics.uci.edu/dataset/222/bank+marketing), semicolons replaced by commas. "
        "Without a folder the rows come from OpenML, data set 1461."
    ),
    sha256="ddeab86c614f430c22e5903d9d62356dc78bb4ff54bd6c20f2392b97041d5647",
    openml_id=1461,
)
_BALANCED = RawFile(
    name="bank.csv.gz",
    columns=(*_FEATURES, "deposit"),
    origin=(
        "It is bank.csv of https://www.kaggle.com/datasets/janiobachmann/bank-marketing-dataset "
        "(compress it with gzip). OpenML does not have this version; subset='full' is there."
    ),
    sha256="acf5e487fc8ca8c5fbef8419a62ca65c6e81a101d5e02022c4d623f523f9dcac",
)
_FILES = {"full": _FULL, "balanced": _BALANCED}

# Euros, days and counts. pdays is -1 for a client who was never contacted before; the campaigns ran
# for two and a half years, and more than fifty contacts are clipped.
_BOUNDS = {
    "age": (18, 95),
    "balance": (-10_000, 100_000),
    "day": (1, 31),
    "duration": (0, 3_600),
    "campaign": (1, 50),
    "pdays": (-1, 900),
    "previous": (0, 50),
}
_YES_NO = ["no", "yes"]
_CATEGORIES = {
    "job": [
        "admin.", "unknown", "unemployed", "management", "housemaid", "entrepreneur", "student",
        "blue-collar", "self-employed", "retired", "technician", "services",
    ],
    "marital": ["married", "divorced", "single"],
    "education": ["unknown", "secondary", "primary", "tertiary"],
    "default": _YES_NO,
    "housing": _YES_NO,
    "loan": _YES_NO,
    "contact": ["unknown", "telephone", "cellular"],
    "month": [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
    "poutcome": ["unknown", "other", "failure", "success"],
}  # fmt: skip

_LEAKS = {"duration": "seconds of the call, known only when its outcome is; UCI advises against it"}

# Upper ends of the age groups; the first begins at 25, and everybody else is "other".
_AGE_ENDS = {2: (60,), 3: (40, 60), 5: (33, 40, 48, 60)}

_DESCRIPTION = """
UCI Bank Marketing
------------------
Clients whom a Portuguese bank telephoned, 2008 to 2010. Target 1: subscribed to a term deposit
(favourable for the bank, 5,289 rows). Sensitive: age, in 2, 3 or 5 groups: 25-60 or other; 25-40,
41-60 or other; 25-33, 34-40, 41-48, 49-60 or other. No official split.
subset="full" has all 45,211 rows. subset="balanced" has 11,162: all subscribers and about as many
others (the version that the PF-LD experiments use, with duration kept by drop_leaks=False).

Source: S. Moro, P. Cortez and P. Rita (2014), Decision Support Systems 62;
https://archive.ics.uci.edu/dataset/222/bank+marketing. Licence: CC BY 4.0.

Missing values: "unknown" is a category of its own.
Public constants: categories are the codebook's; bounds are round numbers for ages, days, euros,
calls of up to an hour and up to fifty contacts.
"""


def fetch_bank(
    *,
    subset: str = "full",
    age_groups: int = 2,
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    download_if_missing: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load UCI Bank Marketing: does a client subscribe to a term deposit?

    Parameters
    ----------
    subset : {"full", "balanced"}, default="full"
        All 45,211 rows, or the 11,162 of a version with about as many subscribers as others.
    age_groups : {2, 3, 5}, default=2
        How finely the ages from 25 to 60 are divided; everybody else is the group "other".
    data_home : path-like or None, default=None
        Folder that holds ``bank_full.csv.gz`` or ``bank.csv.gz``. None reads the environment
        variable ``SKFAIRDP_DATA`` and, where the file is not there either, downloads the full
        version (data set 1461) from OpenML.
    include_sensitive : bool, default=False
        Whether `data` also has age.
    drop_leaks : bool, default=True
        Leave out duration.
    download_if_missing : bool, default=True
        Whether OpenML may be asked.
    verify : bool, default=False
        Compare the local file's SHA-256 with the one that published results were made with.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 14 columns in `data` (15 with duration), `target` 1 for a
        subscription, no `split`.

    Raises
    ------
    FileNotFoundError
        If the rows cannot be found; the message says where to get them.
    ValueError
        If the file is not the expected one, or `subset` or `age_groups` is unknown.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_bank
    >>> fetch_bank(subset="balanced", drop_leaks=False).data.shape  # doctest: +SKIP
    (11162, 15)
    """
    if subset not in _FILES:
        raise ValueError(f"subset is {subset!r}. Allowed are {tuple(_FILES)!r}.")
    if age_groups not in _AGE_ENDS:
        raise ValueError(f"age_groups is {age_groups!r}. Allowed are {tuple(_AGE_ENDS)!r}.")
    raw = _FILES[subset]
    rows, source = read_rows(raw, data_home, download_if_missing=download_if_missing, verify=verify)
    if source.startswith("OpenML"):
        rows = _from_openml(rows, source)
    outcome = rows[raw.columns[-1]]
    return assemble(
        rows[list(_FEATURES)],
        target=(outcome == "yes").rename("deposit"),
        target_names=["no deposit", "deposit"],
        sensitive_features=chosen_sensitive(
            "age_group", {"age_group": _grouped(rows["age"], _AGE_ENDS[age_groups])}
        ),
        excluded=() if include_sensitive else ("age",),
        leak_columns=_LEAKS,
        drop_leaks=drop_leaks,
        bounds=_BOUNDS,
        categories=_CATEGORIES,
        log_columns=("balance", "duration", "campaign", "previous"),
        description=_DESCRIPTION,
        source=source,
    )


def _grouped(age: pd.Series, ends: tuple[int, ...]) -> pd.Series:
    starts = (25, *(end + 1 for end in ends[:-1]))
    labels = np.full(len(age), "other", dtype=object)
    for start, end in zip(starts, ends, strict=True):
        labels[age.between(start, end).to_numpy()] = f"{start}-{end}"
    return pd.Series(labels, index=age.index)


def _from_openml(rows: pd.DataFrame, source: str) -> pd.DataFrame:
    """OpenML's table (V1 to V16, classes 1 and 2) in the shape of the file."""
    names = {f"V{number}": name for number, name in enumerate(_FEATURES, start=1)}
    rows = rows.rename(columns={**names, "Class": "y"})
    require_columns(rows, _FULL.columns, source)
    rows = rows[list(_FULL.columns)].copy()
    for column in _CATEGORIES:
        rows[column] = rows[column].astype(str)
    for column in _BOUNDS:
        rows[column] = rows[column].astype("int64")
    rows["y"] = rows["y"].astype(str).map({"1": "no", "2": "yes"})
    if rows["y"].isna().any():
        raise ValueError(f"{source} has classes other than 1 and 2. Use a local {_FULL.name}.")
    return rows
