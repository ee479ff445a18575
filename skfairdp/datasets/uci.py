"""Tables of the UCI repository: Abalone, Bank Marketing, Default of Credit, Diabetes 130."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skfairdp.foundation.documentation import completed_by

from .source import Request, read, read_card, refuse_other

_ABALONE = read_card("abalone")
_BANK = read_card("bank")
# Upper ends of the age groups; the first begins at 25, and other ages are "other".
_AGE_ENDS = {2: (60,), 3: (40, 60), 5: (33, 40, 48, 60)}
_CREDIT = read_card("credit")
*_COLUMNS, _TARGET = _CREDIT.file.columns
_DIABETES = read_card("diabetes")
_DIAGNOSES = ("diag_1", "diag_2", "diag_3")


@completed_by(_ABALONE.docstring)
def fetch_abalone(
    *,
    subset: str = "adults",
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    download_if_missing: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load UCI Abalone: does the shell have ten rings or more?

    Parameters
    ----------
    subset : {"adults", "fairdp", "all"}, default="adults"
        The 2,835 animals with a sex, the 1,418 that FairDP's authors used (only with a local
        file), or all 4,177 with infants as a third group.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 7 columns of float64 in `data` (lengths in units of 200 mm,
        weights in units of 200 g, as UCI has them), `target` 1 for ten rings or more, `split` for
        the fairdp subset only.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_abalone
    >>> fetch_abalone().data.shape  # doctest: +SKIP
    (2835, 7)
    """
    refuse_other("subset", subset, ("adults", "fairdp", "all"))
    # Rings are a nominal class at OpenML.
    rows, source, assemble = read(
        _ABALONE,
        Request(
            data_home=data_home,
            include_sensitive=include_sensitive,
            drop_leaks=drop_leaks,
            verify=verify,
            download_if_missing=download_if_missing,
        ),
        lambda rows: rows.assign(Rings=rows["Rings"].astype(float).astype("int64")),
    )
    split = None
    if subset == "fairdp":
        if "fairdp_split" not in rows.columns:
            raise ValueError(
                f"subset='fairdp' needs the column fairdp_split, which {source} does not have. "
                f"Use subset='adults', or name a folder with {_ABALONE.file.name} by data_home."
            )
        rows = rows[rows["fairdp_split"] != "none"]
        split = rows["fairdp_split"].to_numpy(dtype=object)
    elif subset == "adults":
        rows = rows[rows["Sex"] != "I"]
    return assemble(
        rows[["Sex", *_ABALONE.bounds]],
        target=(rows["Rings"] >= 10).rename("ten_rings_or_more"),
        available={"sex": rows["Sex"]},
        split=split,
    )


@completed_by(_BANK.docstring)
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
        How finely the ages from 25 to 60 are divided; other ages are the group "other".

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 14 columns in `data` (15 with duration), 5 of int64 (such as
        age in years and balance in euros) and 9 of text; `target` 1 for a subscription, no `split`.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_bank
    >>> fetch_bank(subset="balanced", drop_leaks=False).data.shape  # doctest: +SKIP
    (11162, 15)
    """
    refuse_other("subset", subset, tuple(_BANK.files))
    refuse_other("age_groups", age_groups, tuple(_AGE_ENDS))
    rows, _, assemble = read(
        _BANK,
        Request(
            data_home=data_home,
            include_sensitive=include_sensitive,
            drop_leaks=drop_leaks,
            verify=verify,
            download_if_missing=download_if_missing,
        ),
        _bank,
        subset,
    )
    *features, outcome = _BANK.files[subset].columns
    return assemble(
        rows[features],
        target=(rows[outcome] == "yes").rename("deposit"),
        available={"age_group": _grouped(rows["age"], _AGE_ENDS[age_groups])},
    )


def _grouped(age: pd.Series, ends: tuple[int, ...]) -> pd.Series:
    starts = (25, *(end + 1 for end in ends[:-1]))
    labels = np.full(len(age), "other", dtype=object)
    for start, end in zip(starts, ends, strict=True):
        labels[age.between(start, end).to_numpy()] = f"{start}-{end}"
    return pd.Series(labels, index=age.index)


def _bank(rows: pd.DataFrame) -> pd.DataFrame:
    rows["y"] = rows["y"].map({"1": "no", "2": "yes"})
    if rows["y"].isna().any():
        raise ValueError(f"OpenML has classes other than 1 and 2. Use a local {_BANK.file.name}.")
    return rows


@completed_by(_CREDIT.docstring)
def fetch_default_credit(
    *,
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    download_if_missing: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load Default of Credit Card Clients: will a client default next month?

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 30,000 rows, 22 columns of int64 in `data` (age in years;
        limit, bills and payments in New Taiwan dollars; codes of education, marriage and delays of
        payment in months), `target` 1 for a default (the unfavourable outcome),
        `sensitive_features` "male" or "female", no `split`.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_default_credit
    >>> fetch_default_credit().data.shape  # doctest: +SKIP
    (30000, 22)
    """
    rows, _, assemble = read(
        _CREDIT,
        Request(
            data_home=data_home,
            include_sensitive=include_sensitive,
            drop_leaks=drop_leaks,
            verify=verify,
            download_if_missing=download_if_missing,
        ),
    )
    sex = rows["SEX"].map({1: "male", 2: "female"})
    return assemble(rows[_COLUMNS], target=rows[_TARGET], available={"sex": sex})


@completed_by(_DIABETES.docstring)
def fetch_diabetes130(
    *,
    sensitive: str | Sequence[str] = "gender",
    first_stay_only: bool = False,
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    download_if_missing: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load Diabetes 130-US Hospitals: is a patient readmitted within thirty days?

    Parameters
    ----------
    sensitive : {"gender", "race", "age"} or list of them, default="gender"
        What to return as `sensitive_features`; None where unknown.
    first_stay_only : bool, default=False
        Keep the first row of each patient, so that a record is a patient.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 101,766 rows, 45 columns in `data`, `target` 1 for a readmission
        within thirty days (the unfavourable outcome), no `split`; `owners` is an ndarray of shape
        (n_samples,) of int, equal for rows of one patient.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_diabetes130
    >>> fetch_diabetes130().data.shape  # doctest: +SKIP
    (101766, 45)
    """
    rows, _, assemble = read(
        _DIABETES,
        Request(
            data_home=data_home,
            include_sensitive=include_sensitive,
            drop_leaks=drop_leaks,
            verify=verify,
            download_if_missing=download_if_missing,
            sensitive=sensitive,
        ),
        _diabetes,
    )
    if first_stay_only:
        rows = rows[~rows["patient_nbr"].duplicated()]
    table = rows[[*_DIABETES.bounds, *_DIABETES.categories]].assign(
        **{column: _chapter(rows[column]) for column in _DIAGNOSES}
    )
    bunch = assemble(
        table,
        target=(rows["readmitted"] == "<30").rename("readmitted"),
        available={
            "gender": _known(rows["gender"], "Unknown/Invalid"),
            "race": _known(rows["race"], "?"),
            "age": rows["age"],
        },
    )
    # Numbered anew: the hospitals' own numbers identify people.
    bunch["owners"] = pd.factorize(rows["patient_nbr"])[0]
    return bunch


def _known(labels: pd.Series, unknown: str) -> pd.Series:
    return labels.astype(object).where(labels != unknown, None)


def _chapter(codes: pd.Series) -> pd.Series:
    """Chapter of each ICD-9 code; external causes (E...) and supplements (V...) are "other"."""
    number = np.floor(pd.to_numeric(codes, errors="coerce"))
    chapter = pd.Series("other", index=codes.index, dtype=object)
    for name, ranges in _DIABETES.facts["chapters"].items():
        for first, last in ranges:
            chapter[number.between(first, last)] = name
    chapter[codes == "?"] = "?"
    return chapter


def _diabetes(rows: pd.DataFrame) -> pd.DataFrame:
    """OpenML's table in the shape of the file."""
    tests = ["max_glu_serum", "A1Cresult"]
    # A reader may have taken "None" for missing.
    rows[tests] = rows[tests].replace("?", "None")
    ids = [column for column in _DIABETES.categories if column.endswith("_id")]
    rows[ids] = rows[ids].astype(float).astype("int64")
    return rows
