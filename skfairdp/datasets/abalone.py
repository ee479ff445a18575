"""UCI Abalone: is the animal old?"""

from __future__ import annotations

import os

import pandas as pd
from sklearn.utils import Bunch

from skfairdp.documentation import completed_by

from .assembly import assemble
from .source import read_card, read_rows

_CARD = read_card("abalone")
_SUBSETS = ("adults", "fairdp", "all")


@completed_by(_CARD.docstring)
def fetch_abalone(
    *,
    subset: str = "adults",
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    download_if_missing: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load UCI Abalone: does the shell have ten rings or more?

    Parameters
    ----------
    subset : {"adults", "fairdp", "all"}, default="adults"
        The 2,835 animals with a sex, the 1,418 that FairDP's authors used (only with a local
        file), or all 4,177 with infants as a third group.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 7 columns in `data`, `target` 1 for ten rings or more, `split`
        for the fairdp subset only.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_abalone
    >>> fetch_abalone().data.shape  # doctest: +SKIP
    (2835, 7)
    """
    if subset not in _SUBSETS:
        raise ValueError(f"subset is {subset!r}. Allowed are {_SUBSETS!r}.")
    rows, source = read_rows(_CARD.file, data_home, verify, download_if_missing, _from_openml)
    split = None
    if subset == "fairdp":
        if "fairdp_split" not in rows.columns:
            raise ValueError(
                f"subset='fairdp' needs the column fairdp_split, which {source} does not have. "
                f"Use subset='adults', or name a folder with {_CARD.file.name} by data_home."
            )
        rows = rows[rows["fairdp_split"] != "none"]
        split = rows["fairdp_split"].to_numpy(dtype=object)
    elif subset == "adults":
        rows = rows[rows["Sex"] != "I"]
    return assemble(
        rows[["Sex", *_CARD.bounds]],
        _CARD,
        target=(rows["Rings"] >= 10).rename("ten_rings_or_more"),
        target_names=["fewer", "ten rings or more"],
        sensitive="sex",
        available={"sex": rows["Sex"]},
        columns={"sex": "Sex"},
        include_sensitive=include_sensitive,
        drop_leaks=drop_leaks,
        split=split,
        source=source,
    )


def _from_openml(rows: pd.DataFrame) -> pd.DataFrame:
    """OpenML's table in the shape of the file."""
    rows["Sex"] = rows["Sex"].astype(str)
    # Rings are a nominal class there.
    rows["Rings"] = rows["Rings"].astype(str).astype(float).astype("int64")
    return rows
