"""UCI Adult: income above 50,000 dollars in the US census of 1994."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from .assembly import assemble, chosen_sensitive
from .source import RawFile, read_rows, require_columns

__all__ = ["fetch_adult"]

_RAW = RawFile(
    name="adult.csv.gz",
    columns=(
        "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
        "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
        "native-country", "income", "split",
    ),
    origin=(
        "It is UCI Adult (https://archive.ics.uci.edu/dataset/2/adult): adult.data and adult.test "
        "below each other with the header of adult.names, a column split of 'train' and 'test', "
        "'?' kept, spaces and the full stops after adult.test's labels removed. "
        "Without a folder the rows come from OpenML, data set 1590."
    ),
    sha256="ae0655a69eefdf7e0186431236d13982bc29cb8c1ab2dcc1bd68dae2ecec0d92",
    openml_id=1590,
)  # fmt: skip

# adult.names describes every attribute; the bounds are its round numbers. Ages below 17 were not
# extracted and 90 is the census's top code; 99 hours and 99,999 dollars are top codes as well.
_BOUNDS = {
    "age": (17, 90),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}

# Spelling as in adult.names ("Trinadad", "Holand", "South" are the file's own).
_CATEGORIES = {
    "workclass": [
        "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov",
        "Without-pay", "Never-worked", "?",
    ],
    "education": [
        "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc",
        "9th", "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool",
    ],
    "marital-status": [
        "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed",
        "Married-spouse-absent", "Married-AF-spouse",
    ],
    "occupation": [
        "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial",
        "Prof-specialty", "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical",
        "Farming-fishing", "Transport-moving", "Priv-house-serv", "Protective-serv",
        "Armed-Forces", "?",
    ],
    "relationship": [
        "Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried",
    ],
    "race": ["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"],
    "sex": ["Female", "Male"],
    "native-country": [
        "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany",
        "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran",
        "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal",
        "Ireland", "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti",
        "Columbia", "Hungary", "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia",
        "El-Salvador", "Trinadad&Tobago", "Peru", "Hong", "Holand-Netherlands", "?",
    ],
}  # fmt: skip

_DESCRIPTION = """
UCI Adult ("Census Income")
---------------------------
48,842 people of the US Current Population Survey of 1994. Target 1: income above 50,000 dollars a
year (favourable, 11,687 rows). Sensitive: sex (16,192 Female) or race.
Official split: `split` is "train" for the 32,561 rows of adult.data, "test" for the 16,281 of
adult.test.

Source: B. Becker and R. Kohavi (1996), https://archive.ics.uci.edu/dataset/2/adult.
Licence: CC BY 4.0.

Left out: fnlwgt (a sampling weight, not an attribute of the person) and, unless
include_education=True, education (the same fact as education-num, which is kept as an ordered
number). With it and include_sensitive=True there are 13 attributes, as many as papers on fair
representations count; their P(U=1) = .2362 is the share of the test part.
Missing values: "?" in workclass, occupation and native-country is a category of its own;
complete_rows=True keeps the 45,222 rows without one.
Public constants: bounds and categories are those of adult.names; 17, 90, 99 and 99,999 are limits
and top codes of the extraction, 5,000 is a round number for the loss of capital in a year.
"""

# The first records of adult.test and adult.data (age, fnlwgt), printed in countless tutorials: they
# tell where in OpenML's table the official parts begin.
_FIRST_TEST, _FIRST_TRAIN, _N_TEST = (25, 226_802), (39, 77_516), 16_281


def fetch_adult(
    *,
    sensitive: str | Sequence[str] = "sex",
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    complete_rows: bool = False,
    include_education: bool = False,
    download_if_missing: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load UCI Adult: does a person earn more than 50,000 dollars a year?

    Parameters
    ----------
    sensitive : {"sex", "race"} or list of them, default="sex"
        Which column or columns to return as `sensitive_features`.
    data_home : path-like or None, default=None
        Folder that holds ``adult.csv.gz``. None reads the environment variable ``SKFAIRDP_DATA``
        and, where the file is not there either, downloads data set 1590 from OpenML.
    include_sensitive : bool, default=False
        Whether `data` also has the chosen sensitive columns. By default it has all features but
        those.
    drop_leaks : bool, default=True
        Adult has no column that reveals the target; accepted for symmetry with other loaders.
    complete_rows : bool, default=False
        Keep only the 45,222 rows without a missing value.
    include_education : bool, default=False
        Whether `data` also has education, which repeats education-num as text.
    download_if_missing : bool, default=True
        Whether OpenML may be asked.
    verify : bool, default=False
        Compare the local file's SHA-256 with the one that published results were made with.

    Returns
    -------
    bunch : Bunch
        data : DataFrame of shape (48842, 11)
            Raw, un-encoded features; numbers and text.
        target : Series of shape (48842,) of int
            1 for an income above 50,000 dollars, the favourable outcome.
        sensitive_features : Series or DataFrame
            Text labels.
        bounds : dict of str to (low, high)
            Declared bounds of the numeric columns of `data`, for :class:`PublicScaler`.
        categories : dict of str to list
            Declared categories of the other columns of `data`, for :class:`PublicEncoder`.
        log_columns : tuple of str
            Columns of `bounds` with heavy tails, for ``PublicScaler(log_columns=...)``.
        split : ndarray of shape (48842,) of str, or None
            The official split, "train" or "test".
        feature_names, target_names : list of str
            Columns of `data`; names of the classes 0 and 1.
        leak_columns : tuple of str
            Columns that reveal the target.
        frame : DataFrame
            Everything in one table.
        DESCR : str
            Source, licence, leaks and why, missing values, where the constants come from.

    Raises
    ------
    FileNotFoundError
        If the rows cannot be found; the message says where to get them.
    ValueError
        If the file is not the expected one, or `sensitive` names no sensitive column.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_adult
    >>> adult = fetch_adult()  # doctest: +SKIP
    >>> adult.data.shape  # doctest: +SKIP
    (48842, 11)
    """
    rows, source = read_rows(
        _RAW, data_home, download_if_missing=download_if_missing, verify=verify
    )
    if source.startswith("OpenML"):
        rows, source = _from_openml(rows, source)
    if complete_rows:
        rows = rows[~(rows[list(_CATEGORIES)] == "?").any(axis=1)]
    available = {name: rows[name] for name in ("sex", "race")}
    groups = chosen_sensitive(sensitive, available)
    excluded = [] if include_education else ["education"]
    if not include_sensitive:
        excluded += [sensitive] if isinstance(sensitive, str) else list(sensitive)
    split = rows["split"].to_numpy(dtype=object)
    return assemble(
        rows.drop(columns=["fnlwgt", "split", "income"]),
        target=(rows["income"] == ">50K").rename("income"),
        target_names=["<=50K", ">50K"],
        sensitive_features=groups,
        excluded=excluded,
        leak_columns={},
        drop_leaks=drop_leaks,
        bounds=_BOUNDS,
        categories=_CATEGORIES,
        log_columns=("capital-gain", "capital-loss"),
        split=None if "unknown" in split else split,
        description=_DESCRIPTION,
        source=source,
    )


def _from_openml(rows: pd.DataFrame, source: str) -> tuple[pd.DataFrame, str]:
    """OpenML's table in the shape of the file."""
    rows = rows.rename(columns={"class": "income"})
    require_columns(rows, [c for c in _RAW.columns if c != "split"], source)
    for column in (*_CATEGORIES, "income"):
        # Categorical with NaN for "?"; some copies keep adult.test's full stop after the label.
        rows[column] = rows[column].astype(object).fillna("?").astype(str).str.strip()
    rows["income"] = rows["income"].str.rstrip(".")
    for column in (*_BOUNDS, "fnlwgt"):
        rows[column] = rows[column].astype("int64")
    firsts = rows[["age", "fnlwgt"]].iloc[[0, min(_N_TEST, len(rows) - 1)]].to_numpy()
    if np.array_equal(firsts, [_FIRST_TEST, _FIRST_TRAIN]):
        rows["split"] = np.where(np.arange(len(rows)) < _N_TEST, "test", "train")
        rows = pd.concat([rows[rows["split"] == "train"], rows[rows["split"] == "test"]])
        return rows, f"{source}, official split recognised by the first record of each part"
    rows["split"] = "unknown"
    return rows, f"{source}, whose order does not show the official split"
