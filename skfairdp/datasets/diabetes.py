"""Diabetes 130-US Hospitals: who is readmitted within thirty days?"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from .assembly import assemble, chosen_sensitive
from .source import RawFile, read_rows, require_columns

__all__ = ["fetch_diabetes130"]

_DRUGS = (
    "metformin", "repaglinide", "nateglinide", "chlorpropamide", "glimepiride", "acetohexamide",
    "glipizide", "glyburide", "tolbutamide", "pioglitazone", "rosiglitazone", "acarbose",
    "miglitol", "troglitazone", "tolazamide", "examide", "citoglipton", "insulin",
    "glyburide-metformin", "glipizide-metformin", "glimepiride-pioglitazone",
    "metformin-rosiglitazone", "metformin-pioglitazone",
)  # fmt: skip
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

# Stays of one to fourteen days are an inclusion rule of the study; the counts are clipped at round
# numbers.
_BOUNDS = {
    "time_in_hospital": (1, 14),
    "num_lab_procedures": (0, 130),
    "num_procedures": (0, 6),
    "num_medications": (0, 80),
    "number_outpatient": (0, 40),
    "number_emergency": (0, 40),
    "number_inpatient": (0, 20),
    "number_diagnoses": (1, 16),
}

_CATEGORIES: dict[str, Sequence[str | int]] = {
    "race": ["Caucasian", "AfricanAmerican", "Hispanic", "Asian", "Other", "?"],
    "gender": ["Female", "Male"],
    "age": [f"[{low}-{low + 10})" for low in range(0, 100, 10)],
    # Codes of the file IDS_mapping.csv that comes with the data.
    "admission_type_id": list(range(1, 9)),
    "discharge_disposition_id": list(range(1, 31)),
    "admission_source_id": list(range(1, 27)),
    "payer_code": [
        "MC", "MD", "HM", "UN", "BC", "SP", "CP", "SI", "DM", "CM", "CH", "PO", "WC", "OT", "OG",
        "MP", "FR", "?",
    ],
    # The common ones, by their size in any general hospital; other specialties become zeros.
    "medical_specialty": [
        "InternalMedicine", "Emergency/Trauma", "Family/GeneralPractice", "Cardiology",
        "Surgery-General", "Nephrology", "Orthopedics", "Radiologist", "Pulmonology", "Psychiatry",
        "Urology", "ObstetricsandGynecology", "Gastroenterology", "Oncology", "Pediatrics",
        "Neurology", "Endocrinology", "?",
    ],
    **{diagnosis: [*_CHAPTERS, "other", "?"] for diagnosis in _DIAGNOSES},
    "max_glu_serum": ["None", "Norm", ">200", ">300"],
    "A1Cresult": ["None", "Norm", ">7", ">8"],
    **{drug: ["No", "Steady", "Up", "Down"] for drug in _DRUGS},
    "change": ["No", "Ch"],
    "diabetesMed": ["No", "Yes"],
}  # fmt: skip

_RAW = RawFile(
    name="diabetes130.csv.gz",
    columns=("patient_nbr", *_BOUNDS, *_CATEGORIES, "readmitted"),
    origin=(
        "It is diabetic_data.csv of UCI Diabetes 130-US Hospitals (https://archive.ics.uci.edu/"
        "dataset/296/diabetes+130-us+hospitals+for+years+1999-2008), compressed with gzip. Without "
        "a folder the rows come from OpenML, data set 4541."
    ),
    sha256="f7dd637f580fda746070c5d9eec5b14d35cefe386ebc2199be24fa2463bf6305",
    openml_id=4541,
)

_DESCRIPTION = """
Diabetes 130-US Hospitals
-------------------------
101,766 stays of diabetic patients in US hospitals, 1999 to 2008. Target 1: readmitted within thirty
days (UNFAVOURABLE, 11,357 rows). Sensitive: gender, race or age. No official split.

PRIVACY UNIT: 71,518 patients stay 101,766 times. A guarantee for one record protects one stay, not
one patient; the latter needs user-level privacy (or one stay for each patient:
first_stay_only=True). `owners` holds the patient of each row, so that no patient is in both the
training and the test part (GroupShuffleSplit(...).split(X, y, groups=bunch.owners)).

Source: B. Strack et al. (2014), Impact of HbA1c Measurement on Hospital Readmission Rates, BioMed
Research International; UCI data set 296. Licence: CC BY 4.0.

Left out: encounter_id and patient_nbr (identifiers) and weight (missing in 97 % of the rows).
Diagnoses (ICD-9 codes, more than 700) are grouped into the chapters of the paper's table 2, row by
row.
Discharge codes for death and hospice are kept as categories; such patients cannot return.
Missing values: "?" is a category of its own in race, payer_code, medical_specialty and diagnoses;
"None" in max_glu_serum and A1Cresult is a value (not measured). In sensitive_features a race of "?"
and a gender of "Unknown/Invalid" (3 rows) are missing (None).
Public constants: categories are those of the paper's appendix and IDS_mapping.csv, medical
specialties the seventeen largest fields; bounds are round numbers.
"""


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
    data_home : path-like or None, default=None
        Folder that holds ``diabetes130.csv.gz``. None reads the environment variable
        ``SKFAIRDP_DATA`` and, where the file is not there either, downloads data set 4541 from
        OpenML.
    include_sensitive : bool, default=False
        Whether `data` also has the chosen sensitive columns.
    drop_leaks : bool, default=True
        This set has no column that reveals the target; accepted for symmetry.
    download_if_missing : bool, default=True
        Whether OpenML may be asked.
    verify : bool, default=False
        Compare the local file's SHA-256 with the one that published results were made with.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 101,766 rows, 45 columns in `data`, `target` 1 for a readmission
        within thirty days (the unfavourable outcome), no `split`; `owners` is an ndarray of shape
        (n_samples,) of int, equal for rows of one patient.

    Raises
    ------
    FileNotFoundError
        If the rows cannot be found; the message says where to get them.
    ValueError
        If the file is not the expected one, or `sensitive` names no sensitive column.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_diabetes130
    >>> fetch_diabetes130().data.shape  # doctest: +SKIP
    (101766, 45)
    """
    rows, source = read_rows(
        _RAW, data_home, download_if_missing=download_if_missing, verify=verify
    )
    if source.startswith("OpenML"):
        rows = _from_openml(rows, source)
    if first_stay_only:
        rows = rows[~rows["patient_nbr"].duplicated()]
    groups = chosen_sensitive(
        sensitive,
        {
            "gender": _known(rows["gender"], "Unknown/Invalid"),
            "race": _known(rows["race"], "?"),
            "age": rows["age"],
        },
    )
    chosen = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    table = rows[[*_BOUNDS, *_CATEGORIES]].assign(
        **{column: _chapter(rows[column]) for column in _DIAGNOSES}
    )
    bunch = assemble(
        table,
        target=(rows["readmitted"] == "<30").rename("readmitted"),
        target_names=["not within 30 days", "within 30 days"],
        sensitive_features=groups,
        excluded=() if include_sensitive else chosen,
        leak_columns={},
        drop_leaks=drop_leaks,
        bounds=_BOUNDS,
        categories=_CATEGORIES,
        log_columns=("number_outpatient", "number_emergency", "number_inpatient"),
        description=_DESCRIPTION,
        source=source,
    )
    # Numbered anew: the hospitals' own numbers identify people, and nobody needs them.
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


def _from_openml(rows: pd.DataFrame, source: str) -> pd.DataFrame:
    """OpenML's table in the shape of the file."""
    require_columns(rows, _RAW.columns, source)
    rows = rows[list(_RAW.columns)].copy()
    tests = ("max_glu_serum", "A1Cresult")
    for column in (*_CATEGORIES, "readmitted"):
        if column.endswith("_id"):
            rows[column] = rows[column].astype(str).astype(float).astype("int64")
        else:
            # A reader may have taken "?" or "None" for missing.
            absent = "None" if column in tests else "?"
            rows[column] = rows[column].astype(object).fillna(absent).astype(str)
    for column in (*_BOUNDS, "patient_nbr"):
        rows[column] = rows[column].astype("int64")
    return rows
