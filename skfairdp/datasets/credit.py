"""Default of credit card clients, Taiwan 2005."""

from __future__ import annotations

import os

import pandas as pd
from sklearn.utils import Bunch

from skfairdp.documentation import completed_by

from .assembly import assemble
from .source import read_card, read_rows, require_columns

_CARD = read_card("credit")
*_COLUMNS, _TARGET = _CARD.file.columns


@completed_by(_CARD.docstring)
def fetch_default_credit(
    *,
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    download_if_missing: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load Default of Credit Card Clients: will a client default next month?

    Parameters
    ----------

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 30,000 rows, 22 columns in `data`, `target` 1 for a default (the
        unfavourable outcome), `sensitive_features` "male" or "female", no `split`.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_default_credit
    >>> fetch_default_credit().data.shape  # doctest: +SKIP
    (30000, 22)
    """
    rows, source = read_rows(
        _CARD.file,
        data_home,
        download_if_missing=download_if_missing,
        verify=verify,
        from_openml=_from_openml,
    )
    sex = rows["SEX"].map({1: "male", 2: "female"})
    return assemble(
        rows[_COLUMNS],
        _CARD,
        target=rows[_TARGET],
        target_names=["pays", "defaults"],
        sensitive="sex",
        available={"sex": sex},
        columns={"sex": "SEX"},
        include_sensitive=include_sensitive,
        drop_leaks=drop_leaks,
        source=source,
    )


def _from_openml(rows: pd.DataFrame, source: str) -> pd.DataFrame:
    """OpenML's table (columns x1 to x23 and y) in the shape of the file."""
    names = {f"x{number}": name for number, name in enumerate(_COLUMNS, start=1)}
    rows = rows.rename(columns={**names, "y": _TARGET})
    require_columns(rows, _CARD.file.columns, source)
    return rows[[*_CARD.file.columns]].astype("int64")
