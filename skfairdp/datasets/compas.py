"""ProPublica COMPAS: who is charged again within two years?"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from .assembly import assemble, chosen_sensitive
from .source import RawFile, read_rows, require_columns

__all__ = ["fetch_compas"]

_RAW = RawFile(
    name="compas.csv.gz",
    columns=(
        "sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
        "c_charge_degree", "decile_score", "score_text", "v_decile_score", "v_score_text",
        "is_recid", "is_violent_recid", "start", "end", "event", "two_year_recid",
        "standard_filter",
    ),
    origin=(
        "It is compas-scores-two-years.csv of https://github.com/propublica/compas-analysis, best "
        "without names, dates of birth and case numbers, plus a column standard_filter: 1 where "
        "-30 <= days_b_screening_arrest <= 30, is_recid != -1, c_charge_degree != 'O' and "
        "score_text != 'N/A' (ProPublica's filter), else 0. OpenML does not have this version."
    ),
    sha256="4badfb001b9d5f3467e0d8e4b9e2f6f0fbf5b514bf4070b39b9b94f57af16aa8",
)  # fmt: skip

_FEATURES = (
    "sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
    "c_charge_degree",
)  # fmt: skip

# Adults; counts above twenty juvenile charges or forty earlier charges are clipped. start and end
# are days of a follow-up of three years.
_BOUNDS = {
    "age": (18, 80),
    "juv_fel_count": (0, 20),
    "juv_misd_count": (0, 20),
    "juv_other_count": (0, 20),
    "priors_count": (0, 40),
    "decile_score": (1, 10),
    "v_decile_score": (1, 10),
    "is_recid": (0, 1),
    "is_violent_recid": (0, 1),
    "event": (0, 1),
    "start": (0, 1_200),
    "end": (0, 1_200),
}
# The charges that the published table names most often, as it spells them.
_CHARGES = (
    "Battery", "arrest case no charge", "Possession of Cocaine", "Grand Theft in the 3rd Degree",
    "Driving While License Revoked", "Driving Under The Influence",
    "Felony Driving While Lic Suspd", "Pos Cannabis W/Intent Sel/Del",
    "Felony Battery (Dom Strang)", "Grand Theft (Motor Vehicle)",
    "Possess Cannabis/20 Grams Or Less", "Burglary Unoccupied Dwelling",
    "DUI Property Damage/Injury", "Poss3,4 Methylenedioxymethcath", "Possession of Cannabis",
    "Burglary Conveyance Unoccup", "Felony Petit Theft", "Aggrav Battery w/Deadly Weapon",
    "DUI Level 0.15 Or Minor In Veh", "Aggravated Assault W/Dead Weap",
)  # fmt: skip
_TEN = (*_FEATURES, "age_cat", "c_charge_desc")
# The split is part of the data set: it must be the same for everybody, so its seed is fixed.
_SPLIT_SEED, _N_TRAIN = 20_160_523, 4_320
_LEVELS = ["Low", "Medium", "High"]
_CATEGORIES = {
    "sex": ["Female", "Male"],
    "race": ["African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other"],
    "c_charge_degree": ["F", "M"],
    "score_text": _LEVELS,
    "v_score_text": _LEVELS,
    "age_cat": ["Less than 25", "25 - 45", "Greater than 45"],
    "c_charge_desc": [*_CHARGES, "other charge"],
}

_LOG_COLUMNS = ("juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")

_SCORE = "output of the COMPAS tool, which papers compare with and do not learn from"
_LATER = "recorded during the follow-up, so it knows the outcome"
_LEAKS = {
    "decile_score": _SCORE,
    "score_text": _SCORE,
    "v_decile_score": _SCORE,
    "v_score_text": _SCORE,
    "is_recid": _LATER,
    "is_violent_recid": _LATER,
    "start": _LATER,
    "end": _LATER,
    "event": _LATER,
}

_DESCRIPTION = """
COMPAS (ProPublica)
-------------------
Defendants of Broward County, Florida, 2013 and 2014. Target 1: charged with a new crime within two
years (UNFAVOURABLE). Papers that predict "no recidivism" use 1 - target. Sensitive: race (six
labels) or sex. No official split.
standard_filter=True keeps the 6,172 rows of ProPublica's own analysis (2,809 positive; 3,175
African-American, 2,103 Caucasian); otherwise all 7,214.

version="ten" is the table of papers on fair representations: 10 attributes (age_cat and
c_charge_desc beside the usual eight, race with six labels; the 20 commonest charges, others as
"other charge"), target 1 = NO new charge (favourable), race as "African-American" or "other", and a
split of 4,320 to 1,852. Which rows the papers trained on is not published: this split is ours, one
fixed permutation, so P(U=1) is .5449 over all rows and not exactly their .5378.

Source: J. Larson, S. Mattu, L. Kirchner and J. Angwin (2016), How We Analyzed the COMPAS Recidivism
Algorithm, https://github.com/propublica/compas-analysis. Licence: none stated; public records.

Left out always: identifiers, dates, custody, columns about the new crime
(r_*, vr_*) and duplicates; unless version="ten", age_cat (repeats age) and the charge.
Missing values: none in the columns used.
Public constants: categories are those of the published table; bounds are round numbers for adults
and counts of charges.
"""


def fetch_compas(
    *,
    sensitive: str | Sequence[str] = "race",
    standard_filter: bool = True,
    version: str = "standard",
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load ProPublica's COMPAS table: is a defendant charged again within two years?

    Parameters
    ----------
    sensitive : {"race", "sex"} or list of them, default="race"
        What to return as `sensitive_features`.
    standard_filter : bool, default=True
        Keep only the 6,172 rows of ProPublica's analysis.
    version : {"standard", "ten"}, default="standard"
        "ten": ten attributes, target 1 for NO new charge, race in two groups, and a split, as in
        papers on fair representations. Needs ``standard_filter=True``.
    data_home : path-like or None, default=None
        Folder that holds ``compas.csv.gz``. None reads the environment variable ``SKFAIRDP_DATA``.
    include_sensitive : bool, default=False
        Whether `data` also has the chosen sensitive columns.
    drop_leaks : bool, default=True
        Leave out the tool's scores and what was recorded during the follow-up.
    verify : bool, default=False
        Compare the local file's SHA-256 with the one that published results were made with.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 7 columns in `data`, `target` 1 for a recidivist (the
        unfavourable outcome), no `split`; with ``version="ten"`` up to 10 columns and a `split`.

    Raises
    ------
    FileNotFoundError
        If the rows cannot be found; the message says where to get them.
    ValueError
        If the file is not the expected one, `sensitive` names no sensitive column, or `version`
        is unknown or does not fit `standard_filter`.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_compas
    >>> fetch_compas(sensitive="sex").data.shape  # doctest: +SKIP
    (6172, 7)
    """
    rows, source = read_rows(_RAW, data_home, verify=verify)
    if standard_filter:
        rows = rows[rows["standard_filter"] == 1]
    if version not in ("standard", "ten"):
        raise ValueError(f"version is {version!r}. Allowed are 'standard' and 'ten'.")
    if version == "ten":
        if not standard_filter:
            raise ValueError(
                "version='ten' is made of the filtered rows: set standard_filter=True."
            )
        return _ten_attributes(rows, sensitive, include_sensitive, drop_leaks, source)
    groups = chosen_sensitive(sensitive, {name: rows[name] for name in ("race", "sex")})
    chosen = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    return assemble(
        rows[[*_FEATURES, *_LEAKS]],
        target=rows["two_year_recid"],
        target_names=["no new charge", "new charge"],
        sensitive_features=groups,
        excluded=() if include_sensitive else chosen,
        leak_columns=_LEAKS,
        drop_leaks=drop_leaks,
        bounds=_BOUNDS,
        categories=_CATEGORIES,
        log_columns=_LOG_COLUMNS,
        description=_DESCRIPTION,
        source=source,
    )


def _ten_attributes(
    rows: pd.DataFrame,
    sensitive: str | Sequence[str],
    include_sensitive: bool,
    drop_leaks: bool,
    source: str,
) -> Bunch:
    """The table of papers on fair representations, out of the filtered rows."""
    require_columns(rows, ["age_cat", "c_charge_desc"], source)
    known = rows["c_charge_desc"].isin(_CHARGES)
    rows = rows.assign(c_charge_desc=rows["c_charge_desc"].where(known, "other charge"))
    binary = rows["race"].where(rows["race"] == "African-American", "other")
    split = np.full(len(rows), "test", dtype=object)
    split[np.random.default_rng(_SPLIT_SEED).permutation(len(rows))[:_N_TRAIN]] = "train"
    chosen = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    return assemble(
        rows[[*_TEN, *_LEAKS]],
        target=(1 - rows["two_year_recid"]).rename("no_recid"),
        target_names=["new charge", "no new charge"],
        sensitive_features=chosen_sensitive(sensitive, {"race": binary, "sex": rows["sex"]}),
        excluded=() if include_sensitive else chosen,
        leak_columns=_LEAKS,
        drop_leaks=drop_leaks,
        bounds=_BOUNDS,
        categories=_CATEGORIES,
        log_columns=_LOG_COLUMNS,
        split=split,
        description=_DESCRIPTION,
        source=source,
    )
