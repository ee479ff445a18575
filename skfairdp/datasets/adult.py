"""UCI Adult: income above 50,000 dollars in the US census of 1994."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skfairdp.foundation.documentation import completed_by

from .source import Request, read, read_card

_CARD = read_card("adult")
# The first records of adult.test and adult.data (age, fnlwgt), printed in countless tutorials: they
# show where in OpenML's table the official parts begin.
_FIRST_TEST, _FIRST_TRAIN, _N_TEST = (25, 226_802), (39, 77_516), 16_281


@completed_by(_CARD.docstring)
def fetch_adult(
    *,
    sensitive: str | Sequence[str] = "sex",
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    complete_rows: bool = False,
    include_education: bool = False,
    download_if_missing: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load UCI Adult: does a person earn more than 50,000 dollars a year?

    Parameters
    ----------
    sensitive : {"sex", "race"} or list of them, default="sex"
        Which column or columns to return as `sensitive_features`.
    complete_rows : bool, default=False
        Keep only the 45,222 rows without a missing value.
    include_education : bool, default=False
        Whether `data` also has education, which repeats education-num as text.

    Returns
    -------
    bunch : Bunch
        data : DataFrame of shape (48842, 11)
            Raw, un-encoded features: 5 columns of int64 (age in years, years of education as a
            number from 1 to 16, capital gain and loss in dollars, hours a week), 6 of text, in
            which "?" is a missing value.
        target : Series of shape (48842,) of int64
            1 for an income above 50,000 dollars, the favourable outcome.
        sensitive_features : Series of shape (48842,), or DataFrame of shape (48842, n_columns)
            Text labels; a DataFrame where `sensitive` is a list.
        bounds : dict of str to (low, high)
            Declared bounds of the numeric columns of `data`, for
            :class:`~skfairdp.preprocessing.PublicScaler`.
        categories : dict of str to list
            Declared categories of the other columns of `data`, for
            :class:`~skfairdp.preprocessing.PublicEncoder`.
        log_columns : tuple of str
            Columns of `bounds` with heavy tails, for ``PublicScaler(log_columns=...)``.
        split : ndarray of shape (48842,) of object, or None
            The official split, "train" or "test".
        feature_names, target_names : list of str
            Columns of `data`; names of the classes 0 and 1.
        leak_columns : tuple of str
            Columns that reveal the target.
        frame : DataFrame of shape (48842, n_columns)
            Everything in one table.
        DESCR : str
            Source, licence, leaks and why, missing values, where the constants come from.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_adult
    >>> adult = fetch_adult()  # doctest: +SKIP
    >>> adult.data.shape  # doctest: +SKIP
    (48842, 11)
    """
    rows, source, assemble = read(
        _CARD,
        Request(
            data_home=data_home,
            include_sensitive=include_sensitive,
            drop_leaks=drop_leaks,
            verify=verify,
            download_if_missing=download_if_missing,
            sensitive=sensitive,
        ),
        _from_openml,
    )
    if complete_rows:
        rows = rows[~(rows[list(_CARD.categories)] == "?").any(axis=1)]
    split = rows["split"].to_numpy(dtype=object)
    unknown = "unknown" in split
    if source.startswith("OpenML"):
        source += (
            ", whose order does not show the official split"
            if unknown
            else ", official split recognised by the first record of each part"
        )
    return assemble(
        rows.drop(columns=["fnlwgt", "split", "income"]),
        target=(rows["income"] == ">50K").rename("income"),
        available={name: rows[name] for name in ("sex", "race")},
        excluded=() if include_education else ("education",),
        split=None if unknown else split,
        source=source,
    )


def _from_openml(rows: pd.DataFrame) -> pd.DataFrame:
    """OpenML's table in the shape of the file."""
    # Some copies keep adult.test's full stop after the label.
    rows["income"] = rows["income"].str.rstrip(".")
    firsts = rows[["age", "fnlwgt"]].iloc[[0, min(_N_TEST, len(rows) - 1)]].to_numpy()
    if np.array_equal(firsts, [_FIRST_TEST, _FIRST_TRAIN]):
        rows["split"] = np.where(np.arange(len(rows)) < _N_TEST, "test", "train")
        return pd.concat([rows[rows["split"] == "train"], rows[rows["split"] == "test"]])
    return rows.assign(split="unknown")
