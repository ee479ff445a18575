"""HSLS:09: does a student of ninth grade score above the median in the mathematics test?"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from sklearn.utils import Bunch

from .assembly import assemble, chosen_sensitive
from .source import RawFile, read_rows

__all__ = ["fetch_hsls"]

_RAW = RawFile(
    name="hsls_dropout.csv.gz",
    columns=(
        "X1TXMTSCOR", "X4EVERDROP", "X1SEX", "X1RACE", "X1STAGE", "X1CONTROL", "X1SES", "X1SES_U",
        "X1LOCALE", "X1REGION", "S1M8GRADE", "S1MSCORE", "na_prop", "STU_ID", "split",
        "race_observed", "math_observed",
    ),
    origin=(
        "It is made of 25_train_0101_imputed_pmm_nr_dropped.csv and its test part in "
        "https://github.com/cgpan/HSLSdropout (01_data/02_processed_data), below each other, with "
        "a column split and, joined from the survey before imputation, sex_observed, race_observed "
        "and math_observed (0 or 1). OpenML does not have it."
    ),
    sha256="2a609cf70a35049d8ffffd3354a7704d8d39add9df35dba25f1d561c70260c23",
)  # fmt: skip

# The scales of the survey are standardised: their ends are given as whole deviations. Stages and
# expected degrees are codes of the codebook in their order.
_BOUNDS = {
    "X1SEX": (0, 1),
    "X1STAGE": (13, 18),
    "X1SES": (-2, 3),
    "X1SES_U": (-2, 3),
    "X1SCHOOLENG": (-4, 2),
    "X1SCHOOLBEL": (-5, 2),
    "X1SCHOOLCLI": (-5, 2),
    "X1MTHID": (-2, 2),
    "X1MTHUTI": (-4, 2),
    "X1MTHEFF": (-3, 2),
    "X1MTHINT": (-3, 3),
    "X1SCIID": (-2, 3),
    "X1SCIUTI": (-4, 2),
    "X1SCIEFF": (-3, 2),
    "X1SCIINT": (-3, 3),
    "X1PAREDEXPCT": (1, 10),
    "X1STUEDEXPCT": (1, 10),
    "X1PROBLEM": (-3, 3),
    "X2SCHOOLCLI": (-4, 3),
    "X2PROBLEM": (-3, 3),
    "X4EVERDROP": (0, 1),
    "S1MSCORE": (0, 8),
    "na_prop": (0, 1),
}
_CATEGORIES = {
    "X1RACE": [
        "Amer. Indian/Alaska Native, non-Hispanic", "Asian, non-Hispanic",
        "Black/African-American, non-Hispanic", "Hispanic, no race specified",
        "Hispanic, race specified", "More than one race, non-Hispanic",
        "Native Hawaiian/Pacific Islander, non-Hispanic", "White, non-Hispanic",
    ],
    "X1CONTROL": ["Public", "Catholic or other private"],
    "X1LOCALE": ["City", "Suburb", "Town", "Rural"],
    "X1REGION": ["Northeast", "Midwest", "South", "West"],
    "S1M8GRADE": ["A", "B", "C", "D", "Below D", "Class was not graded"],
}  # fmt: skip

_LATER = "recorded years after the test"
_LEAKS = {
    "S1MSCORE": "made of answers about mathematics at the time of the test; near to the score",
    "X2SCHOOLCLI": _LATER,
    "X2PROBLEM": _LATER,
    "X4EVERDROP": _LATER,
    "na_prop": "share of imputed values: a fact of the survey, not of the student",
}
_RAW_NAMES = {"race": "X1RACE", "sex": "X1SEX"}

_DESCRIPTION = """
HSLS:09 (High School Longitudinal Study of 2009), the rows of a study of dropping out
-------------------------------------------------------------------------------------
17,332 students of ninth grade in the United States, public-use file, with some 25 variables that a
published study chose. Target 1: a mathematics score (X1TXMTSCOR) above the median of the rows used,
or above `threshold`. Sensitive: race (White or Asian, or other) or sex.
observed_only=True keeps the 15,906 rows whose race AND score were observed (7,953 positive; 10,212
White or Asian). These are NOT the 14,509 rows and 57 variables that papers on fairness use.
`split` is that study's own, "train" (13,865 of all rows) or "test" (3,467).

Source: NCES, High School Longitudinal Study of 2009, https://nces.ed.gov/surveys/hsls09; rows of
F. Pan and J. Zhang (2024), EDM, https://github.com/cgpan/HSLSdropout. Licence: public-use data; no
re-identification.

Left out always: STU_ID (an identifier) and marks of what was observed.
Missing values: IMPUTED by the study's authors (predictive mean matching over all rows, so each row
depends a little on others); na_prop is the share in a row.
Public constants: categories are those of the codebook; bounds are whole standard deviations around
the survey's scales. The median is computed from the rows: a guarantee about one row speaks of a
fixed threshold, so name one where that matters.
"""


def fetch_hsls(
    *,
    sensitive: str | Sequence[str] = "race",
    observed_only: bool = True,
    threshold: float | None = None,
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load HSLS:09 students: is the score in mathematics above the median?

    Parameters
    ----------
    sensitive : {"race", "sex"} or list of them, default="race"
        What to return as `sensitive_features`: "White or Asian" or "other", "female" or "male".
    observed_only : bool, default=True
        Keep only the 15,906 rows whose race and score were observed, not imputed.
    threshold : float or None, default=None
        Score above which the target is 1. None takes the median of the rows used.
    data_home : path-like or None, default=None
        Folder that holds ``hsls_dropout.csv.gz``. None reads the environment variable
        ``SKFAIRDP_DATA``.
    include_sensitive : bool, default=False
        Whether `data` also has the columns that the chosen sensitive features are made of.
    drop_leaks : bool, default=True
        Leave out what is near to the score or was recorded later.
    verify : bool, default=False
        Compare the local file's SHA-256 with the one that published results were made with.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 22 columns in `data`, and `threshold`, the score used.

    Raises
    ------
    FileNotFoundError
        If the rows cannot be found; the message says where to get them.
    ValueError
        If the file is not the expected one, `sensitive` names no sensitive column, or `threshold`
        is no number.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_hsls
    >>> fetch_hsls().data.shape  # doctest: +SKIP
    (15906, 22)
    """
    if threshold is not None and not np.isfinite(threshold):
        raise ValueError(f"threshold is {threshold!r}. Allowed is a finite score, or None.")
    rows, source = read_rows(_RAW, data_home, verify=verify)
    if observed_only:
        rows = rows[(rows["race_observed"] == 1) & (rows["math_observed"] == 1)]
    white_or_asian = rows["X1RACE"].isin(["White, non-Hispanic", "Asian, non-Hispanic"])
    groups = chosen_sensitive(
        sensitive,
        {
            "race": white_or_asian.map({True: "White or Asian", False: "other"}),
            "sex": rows["X1SEX"].map({1: "male", 0: "female"}),
        },
    )
    chosen = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    used = float(rows["X1TXMTSCOR"].median() if threshold is None else threshold)
    marks = ["X1TXMTSCOR", "STU_ID", "split", "sex_observed", "race_observed", "math_observed"]
    bunch = assemble(
        rows.drop(columns=[column for column in marks if column in rows]),
        target=(rows["X1TXMTSCOR"] > used).rename("high_score"),
        target_names=["at most the median", "above the median"]
        if threshold is None
        else [f"at most {used:g}", f"above {used:g}"],
        sensitive_features=groups,
        excluded=() if include_sensitive else [_RAW_NAMES[name] for name in chosen],
        leak_columns=_LEAKS,
        drop_leaks=drop_leaks,
        bounds=_BOUNDS,
        categories=_CATEGORIES,
        split=rows["split"].to_numpy(dtype=object),
        description=_DESCRIPTION,
        source=source,
    )
    bunch.threshold = used
    return bunch
