"""LSAC law school study: who passes the bar examination?"""

from __future__ import annotations

import os
from collections.abc import Sequence

from sklearn.utils import Bunch

from .assembly import assemble, chosen_sensitive
from .source import RawFile, read_rows

__all__ = ["fetch_law_school"]

_RAW = RawFile(
    name="law_school_clean.csv.gz",
    columns=(
        "decile1b", "decile3", "lsat", "ugpa", "zfygpa", "zgpa", "fulltime", "fam_inc", "male",
        "tier", "race", "pass_bar",
    ),
    origin=(
        "It is law_school_clean.csv of T. Le Quy et al., A survey on datasets for fairness-aware "
        "machine learning (2022), https://github.com/tailequy/fairness_dataset, folder "
        "experiments/data (compress it with gzip). OpenML does not have this version."
    ),
    sha256="752c015e92072fb5869885619ebc33ae1240717dbdf9be9f1313c5003cf86c84",
)  # fmt: skip

# The LSAT of the time was graded from 10 to 48, grades from 0 to 4; deciles, income quintiles and
# tiers are what their names say; standardised grades are bounded by four standard deviations.
_BOUNDS = {
    "decile1b": (1, 10),
    "decile3": (1, 10),
    "lsat": (10, 48),
    "ugpa": (0, 4),
    "zfygpa": (-4, 4),
    "zgpa": (-4, 4),
    "fulltime": (1, 2),
    "fam_inc": (1, 5),
    "male": (0, 1),
    "tier": (1, 6),
}
_CATEGORIES = {"race": ["White", "Non-White"]}

_DESCRIPTION = """
Law school (LSAC National Longitudinal Bar Passage Study)
---------------------------------------------------------
20,798 students who entered US law schools in 1991, as cleaned by Le Quy et al. (2022). Target 1:
passed the bar (favourable, 18,505 rows). Sensitive: race ("White" or "Non-White", 3,307 rows) or
sex. No official split.
This is not the admission file of 86,022 rows that some papers call Law School. 89.0 % positive is
close to the share of those who pass at the FIRST try.

Source: L. F. Wightman (1998), LSAC National Longitudinal Bar Passage Study; cleaned table from
https://github.com/tailequy/fairness_dataset. Licence: none stated; public research data.

Missing values: none (rows with missing values were removed by the cleaning).
Grades of law school (decile1b, decile3, zfygpa, zgpa) are known before the examination and no leak.
Public constants: scales of the examinations and gradings; standardised grades are clipped at four
standard deviations.
"""


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
    data_home : path-like or None, default=None
        Folder that holds ``law_school_clean.csv.gz``. None reads the environment variable
        ``SKFAIRDP_DATA``.
    include_sensitive : bool, default=False
        Whether `data` also has the chosen sensitive columns (sex is named male there).
    drop_leaks : bool, default=True
        This set has no column that reveals the target; accepted for symmetry.
    verify : bool, default=False
        Compare the local file's SHA-256 with the one that published results were made with.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 20,798 rows, 10 columns in `data`, `target` 1 for passing (the
        favourable outcome), no `split`.

    Raises
    ------
    FileNotFoundError
        If the rows cannot be found; the message says where to get them.
    ValueError
        If the file is not the expected one, or `sensitive` names no sensitive column.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_law_school
    >>> fetch_law_school().data.shape  # doctest: +SKIP
    (20798, 10)
    """
    rows, source = read_rows(_RAW, data_home, verify=verify)
    available = {"race": rows["race"], "sex": rows["male"].map({1: "male", 0: "female"})}
    groups = chosen_sensitive(sensitive, available)
    chosen = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    columns = {"race": "race", "sex": "male"}
    return assemble(
        rows[[*_BOUNDS, *_CATEGORIES]],
        target=rows["pass_bar"],
        target_names=["fails", "passes"],
        sensitive_features=groups,
        excluded=() if include_sensitive else [columns[name] for name in chosen],
        leak_columns={},
        drop_leaks=drop_leaks,
        bounds=_BOUNDS,
        categories=_CATEGORIES,
        description=_DESCRIPTION,
        source=source,
    )
