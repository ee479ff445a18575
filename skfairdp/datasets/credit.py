"""Default of credit card clients, Taiwan 2005."""

from __future__ import annotations

import os

import pandas as pd
from sklearn.utils import Bunch

from .assembly import assemble, chosen_sensitive
from .source import RawFile, read_rows, require_columns

__all__ = ["fetch_default_credit"]

_PAY = ("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6")
_BILLS = tuple(f"BILL_AMT{month}" for month in range(1, 7))
_PAYMENTS = tuple(f"PAY_AMT{month}" for month in range(1, 7))
_COLUMNS = ("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", *_PAY, *_BILLS, *_PAYMENTS)
_TARGET = "default_payment_next_month"

_RAW = RawFile(
    name="default_ccc.csv.gz",
    columns=(*_COLUMNS, _TARGET),
    origin=(
        "It is UCI Default of Credit Card Clients "
        "(https://archive.ics.uci.edu/dataset/350/default+of+credit+card+clients) as CSV, its "
        "second header row as header, without ID, the target named default_payment_next_month. "
        "Without a folder the rows come from OpenML, data set 42477."
    ),
    sha256="a24b0b470631102a62b8f221e2019124f5c2514fa9eb4407b214df108c9b37a4",
    openml_id=42477,
)

# Round numbers in new Taiwan dollars that a consumer's account is unlikely to leave; larger amounts
# are clipped. Bills are negative after an overpayment.
_BOUNDS = {
    "LIMIT_BAL": (10_000, 1_000_000),
    "AGE": (18, 80),
    **dict.fromkeys(_BILLS, (-100_000, 500_000)),
    **dict.fromkeys(_PAYMENTS, (0, 1_000_000)),
}

# The codebook names SEX 1 male, 2 female; EDUCATION 1-4; MARRIAGE 1-3. Codes 0, 5 and 6 occur
# without a description, so they are declared too. The repayment status is no ladder: -2 is no
# consumption, -1 paid in full, 0 revolving credit, only 1 to 8 count months of delay.
_CATEGORIES = {
    "SEX": [1, 2],
    "EDUCATION": [0, 1, 2, 3, 4, 5, 6],
    "MARRIAGE": [0, 1, 2, 3],
    **{status: list(range(-2, 9)) for status in _PAY},
}

_DESCRIPTION = """
Default of credit card clients
------------------------------
30,000 clients of a bank in Taiwan, April to September 2005. Target 1: the client defaults on the
payment of the next month (UNFAVOURABLE, 6,636 rows). Sensitive: SEX (11,888 male, 18,112 female),
returned as "male" and "female".
No official split.

Source: I.-C. Yeh and C. Lien (2009), Expert Systems with Applications 36(2);
https://archive.ics.uci.edu/dataset/350/default+of+credit+card+clients. Licence: CC BY 4.0.

Missing values: none. Codes 0 of EDUCATION and MARRIAGE and 5, 6 of EDUCATION are undocumented and
kept as categories of their own.
Public constants: categories are the codebook's (with the codes -2 and 0 of the repayment status,
which its authors explained later); money is bounded by round numbers in new Taiwan dollars (credit
lines and payments of more than a million and bills of more than half a million are clipped), ages
by 18 and 80.
"""


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
    data_home : path-like or None, default=None
        Folder that holds ``default_ccc.csv.gz``. None reads the environment variable
        ``SKFAIRDP_DATA`` and, where the file is not there either, downloads data set 42477 from
        OpenML.
    include_sensitive : bool, default=False
        Whether `data` also has SEX.
    drop_leaks : bool, default=True
        This set has no column that reveals the target; accepted for symmetry.
    download_if_missing : bool, default=True
        Whether OpenML may be asked.
    verify : bool, default=False
        Compare the local file's SHA-256 with the one that published results were made with.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 30,000 rows, 22 columns in `data`, `target` 1 for a default (the
        unfavourable outcome), `sensitive_features` "male" or "female", no `split`.

    Raises
    ------
    FileNotFoundError
        If the rows cannot be found; the message says where to get them.
    ValueError
        If the file is not the expected one.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_default_credit
    >>> fetch_default_credit().data.shape  # doctest: +SKIP
    (30000, 22)
    """
    rows, source = read_rows(
        _RAW, data_home, download_if_missing=download_if_missing, verify=verify
    )
    if source.startswith("OpenML"):
        rows = _from_openml(rows, source)
    sex = rows["SEX"].map({1: "male", 2: "female"})
    return assemble(
        rows[list(_COLUMNS)],
        target=rows[_TARGET],
        target_names=["pays", "defaults"],
        sensitive_features=chosen_sensitive("sex", {"sex": sex}),
        excluded=() if include_sensitive else ("SEX",),
        leak_columns={},
        drop_leaks=drop_leaks,
        bounds=_BOUNDS,
        categories=_CATEGORIES,
        log_columns=("LIMIT_BAL", *_PAYMENTS),
        description=_DESCRIPTION,
        source=source,
    )


def _from_openml(rows: pd.DataFrame, source: str) -> pd.DataFrame:
    """OpenML's table (columns x1 to x23 and y) in the shape of the file."""
    names = {f"x{number}": name for number, name in enumerate(_COLUMNS, start=1)}
    rows = rows.rename(columns={**names, "y": _TARGET})
    require_columns(rows, _RAW.columns, source)
    return rows[[*_RAW.columns]].astype("int64")
