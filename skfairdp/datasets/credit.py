"""Default of credit card clients, Taiwan 2005."""

from __future__ import annotations

import os

from sklearn.utils import Bunch

from skfairdp.documentation import completed_by

from .assembly import assemble
from .source import read_card, read_rows

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
        _CARD.file, data_home, verify, download_if_missing, lambda rows: rows.astype("int64")
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
