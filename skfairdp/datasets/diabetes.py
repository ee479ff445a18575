"""Diabetes 130-US Hospitals: who is readmitted within thirty days?"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skfairdp.documentation import completed_by

from .source import assemble, read_card, read_rows

_CARD = read_card("diabetes")
_DIAGNOSES = ("diag_1", "diag_2", "diag_3")

# Chapters of the ICD-9 as in table 2 of Strack et al.: first and last code of each.
_CHAPTERS = {
    "circulatory": ((390, 459), (785, 785)),
    "respiratory": ((460, 519), (786, 786)),
    "digestive": ((520, 579), (787, 787)),
    "diabetes": ((250, 250),),
    "injury": ((800, 999),),
    "musculoskeletal": ((710, 739),),
    "genitourinary": ((580, 629), (788, 788)),
    "neoplasms": ((140, 239),),
}


@completed_by(_CARD.docstring)
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
    rows, source = read_rows(_CARD.file, data_home, verify, download_if_missing, _from_openml)
    if first_stay_only:
        rows = rows[~rows["patient_nbr"].duplicated()]
    table = rows[[*_CARD.bounds, *_CARD.categories]].assign(
        **{column: _chapter(rows[column]) for column in _DIAGNOSES}
    )
    bunch = assemble(
        table,
        _CARD,
        target=(rows["readmitted"] == "<30").rename("readmitted"),
        sensitive=sensitive,
        available={
            "gender": _known(rows["gender"], "Unknown/Invalid"),
            "race": _known(rows["race"], "?"),
            "age": rows["age"],
        },
        include_sensitive=include_sensitive,
        drop_leaks=drop_leaks,
        source=source,
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
    for name, ranges in _CHAPTERS.items():
        for first, last in ranges:
            chapter[number.between(first, last)] = name
    chapter[codes == "?"] = "?"
    return chapter


def _from_openml(rows: pd.DataFrame) -> pd.DataFrame:
    """OpenML's table in the shape of the file."""
    tests = ["max_glu_serum", "A1Cresult"]
    # A reader may have taken "None" for missing.
    rows[tests] = rows[tests].replace("?", "None")
    ids = [column for column in _CARD.categories if column.endswith("_id")]
    rows[ids] = rows[ids].astype(float).astype("int64")
    return rows
