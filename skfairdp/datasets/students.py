"""Students: ninth grade (HSLS:09), the bar examination (LSAC), the Open University (OULAD)."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skfairdp.foundation.documentation import completed_by

from .source import Request, read, read_card

_HSLS = read_card("hsls")
_LAW = read_card("law_school")
_OULAD = read_card("oulad")


@completed_by(_HSLS.docstring)
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

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 22 columns in `data`, 18 of numbers (float64 or int64) and 4 of
        text, and `threshold`, the score used, a float in points of the test.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_hsls
    >>> fetch_hsls().data.shape  # doctest: +SKIP
    (15906, 22)
    """
    if threshold is not None and not np.isfinite(threshold):
        raise ValueError(f"threshold is {threshold!r}. Allowed is a finite score, or None.")
    rows, _, assemble = read(
        _HSLS,
        Request(
            data_home=data_home,
            include_sensitive=include_sensitive,
            drop_leaks=drop_leaks,
            verify=verify,
            sensitive=sensitive,
        ),
    )
    if observed_only:
        rows = rows[(rows["race_observed"] == 1) & (rows["math_observed"] == 1)]
    white_or_asian = rows["X1RACE"].isin(["White, non-Hispanic", "Asian, non-Hispanic"])
    used = float(rows["X1TXMTSCOR"].median() if threshold is None else threshold)
    marks = ["X1TXMTSCOR", "STU_ID", "split", "sex_observed", "race_observed", "math_observed"]
    bunch = assemble(
        rows.drop(columns=[column for column in marks if column in rows]),
        target=(rows["X1TXMTSCOR"] > used).rename("high_score"),
        target_names=None if threshold is None else [f"at most {used:g}", f"above {used:g}"],
        available={
            "race": white_or_asian.map({True: "White or Asian", False: "other"}),
            "sex": rows["X1SEX"].map({1: "male", 0: "female"}),
        },
        split=rows["split"].to_numpy(dtype=object),
    )
    bunch.threshold = used
    return bunch


@completed_by(_LAW.docstring)
def fetch_law_school(
    *,
    sensitive: str | Sequence[str] = "race",
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load the cleaned LSAC study: does a law student pass the bar?

    Parameters
    ----------
    sensitive : {"race", "sex"} or list of them, default="race"
        What to return as `sensitive_features`.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 20,798 rows, 10 columns of float64 in `data`, `target` 1 for
        passing (the favourable outcome), no `split`.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_law_school
    >>> fetch_law_school().data.shape  # doctest: +SKIP
    (20798, 10)
    """
    rows, _, assemble = read(
        _LAW,
        Request(
            data_home=data_home,
            include_sensitive=include_sensitive,
            drop_leaks=drop_leaks,
            verify=verify,
            sensitive=sensitive,
        ),
    )
    available = {"race": rows["race"], "sex": rows["male"].map({1: "male", 0: "female"})}
    return assemble(
        rows[[*_LAW.bounds, *_LAW.categories]], target=rows["pass_bar"], available=available
    )


@completed_by(_OULAD.docstring)
def fetch_oulad(
    *,
    sensitive: str | Sequence[str] = "gender",
    first_row_only: bool = False,
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load enrolments at the Open University: does a student pass the course?

    Parameters
    ----------
    sensitive : {"gender", "age", "disability"} or list of them, default="gender"
        What to return as `sensitive_features`: "F" or "M"; "0-35", "35-55" or "55<="; "N" or "Y".
    first_row_only : bool, default=False
        Keep the first row of each student, so that a record is a student.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 21,562 rows, 9 columns in `data` (2 of int64 and 7 of text),
        `target` 1 for passing (the favourable outcome), no `split`; `owners` is an ndarray of shape
        (n_samples,) of int, equal for rows of one student.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_oulad
    >>> fetch_oulad().data.shape  # doctest: +SKIP
    (21562, 9)
    """
    rows, _, assemble = read(
        _OULAD,
        Request(
            data_home=data_home,
            include_sensitive=include_sensitive,
            drop_leaks=drop_leaks,
            verify=verify,
            sensitive=sensitive,
        ),
    )
    if first_row_only:
        rows = rows[~rows["id_student"].duplicated()]
    bunch = assemble(
        rows[[*_OULAD.bounds, *_OULAD.categories]],
        target=(rows["final_result"] == "Pass").rename("passed"),
        available={
            "gender": rows["gender"],
            "age": rows["age_band"],
            "disability": rows["disability"],
        },
    )
    # Numbered anew: the university's own numbers identify people.
    bunch["owners"] = pd.factorize(rows["id_student"])[0]
    return bunch
