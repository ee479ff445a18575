"""UCI Bank Marketing: who subscribes to a term deposit?"""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skfairdp.documentation import completed_by

from .assembly import assemble
from .source import read_card, read_rows

_CARD = read_card("bank")
# Upper ends of the age groups; the first begins at 25, and other ages are "other".
_AGE_ENDS = {2: (60,), 3: (40, 60), 5: (33, 40, 48, 60)}


@completed_by(_CARD.docstring)
def fetch_bank(
    *,
    subset: str = "full",
    age_groups: int = 2,
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    download_if_missing: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load UCI Bank Marketing: does a client subscribe to a term deposit?

    Parameters
    ----------
    subset : {"full", "balanced"}, default="full"
        All 45,211 rows, or the 11,162 of a version with about as many subscribers as others.
    age_groups : {2, 3, 5}, default=2
        How finely the ages from 25 to 60 are divided; other ages are the group "other".

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 14 columns in `data` (15 with duration), `target` 1 for a
        subscription, no `split`.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_bank
    >>> fetch_bank(subset="balanced", drop_leaks=False).data.shape  # doctest: +SKIP
    (11162, 15)
    """
    if subset not in _CARD.files:
        raise ValueError(f"subset is {subset!r}. Allowed are {tuple(_CARD.files)!r}.")
    if age_groups not in _AGE_ENDS:
        raise ValueError(f"age_groups is {age_groups!r}. Allowed are {tuple(_AGE_ENDS)!r}.")
    raw = _CARD.files[subset]
    rows, source = read_rows(raw, data_home, verify, download_if_missing, _from_openml)
    *features, outcome = raw.columns
    return assemble(
        rows[features],
        _CARD,
        target=(rows[outcome] == "yes").rename("deposit"),
        target_names=["no deposit", "deposit"],
        sensitive="age_group",
        available={"age_group": _grouped(rows["age"], _AGE_ENDS[age_groups])},
        columns={"age_group": "age"},
        include_sensitive=include_sensitive,
        drop_leaks=drop_leaks,
        source=source,
    )


def _grouped(age: pd.Series, ends: tuple[int, ...]) -> pd.Series:
    starts = (25, *(end + 1 for end in ends[:-1]))
    labels = np.full(len(age), "other", dtype=object)
    for start, end in zip(starts, ends, strict=True):
        labels[age.between(start, end).to_numpy()] = f"{start}-{end}"
    return pd.Series(labels, index=age.index)


def _from_openml(rows: pd.DataFrame) -> pd.DataFrame:
    """OpenML's table (classes 1 and 2) in the shape of the file."""
    for column in _CARD.categories:
        rows[column] = rows[column].astype(str)
    for column in _CARD.bounds:
        rows[column] = rows[column].astype("int64")
    rows["y"] = rows["y"].astype(str).map({"1": "no", "2": "yes"})
    if rows["y"].isna().any():
        raise ValueError(f"OpenML has classes other than 1 and 2. Use a local {_CARD.file.name}.")
    return rows
