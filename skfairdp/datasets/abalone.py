"""UCI Abalone: is the animal old?"""

from __future__ import annotations

import os

import pandas as pd
from sklearn.utils import Bunch

from .assembly import assemble, chosen_sensitive
from .source import RawFile, read_rows, require_columns

__all__ = ["fetch_abalone"]

_RAW = RawFile(
    name="abalone.csv.gz",
    columns=(
        "Sex", "Length", "Diameter", "Height", "Whole_weight", "Shucked_weight", "Viscera_weight",
        "Shell_weight", "Rings",
    ),
    origin=(
        "It is UCI Abalone (https://archive.ics.uci.edu/dataset/1/abalone), abalone.data with the "
        "header Sex, Length, Diameter, Height, Whole_weight, Shucked_weight, Viscera_weight, "
        "Shell_weight, Rings and, for subset='fairdp', a column fairdp_split of 'train', 'test' "
        "and 'none'. Without a folder the rows come from OpenML, data set 183."
    ),
    sha256="9a5dfbd2df856e10a035c93f881dc19966738d8fa1b7cd93d94790019ce4934d",
    openml_id=183,
)  # fmt: skip

# Lengths are in units of 200 mm and weights in units of 200 g, as in abalone.names. Blacklip
# abalone grow to some 200 mm and 600 g.
_BOUNDS = {
    "Length": (0, 1),
    "Diameter": (0, 1),
    "Height": (0, 0.4),
    "Whole_weight": (0, 3),
    "Shucked_weight": (0, 1.5),
    "Viscera_weight": (0, 1),
    "Shell_weight": (0, 1),
}
_CATEGORIES = {"Sex": ["F", "M", "I"]}
_SUBSETS = ("adults", "fairdp", "all")

_DESCRIPTION = """
UCI Abalone
-----------
4,177 abalone from Tasmania. Target 1: ten rings or more, that is, eleven and a half years or older
(the rule of the FairDP experiments). Sensitive: Sex, "F" or "M" (and "I", infants, with
subset="all").
subset="adults" has the 2,835 rows with a sex (1,528 M, 1,307 F). subset="fairdp" has the 1,418 rows
and the split (1,057/361) that FairDP published: half of the adults, and no random half, for the
positive rate is M 0.506 and F 0.807 in it but M 0.622 and F 0.676 over all adults. Most of the gap
between its groups comes from that selection.

Source: W. J. Nash et al. (1994), https://archive.ics.uci.edu/dataset/1/abalone. Licence: CC BY 4.0.

Missing values: none. Rings is the target and never a feature.
Public constants: bounds are round numbers for what a blacklip abalone measures, in the file's units
of 200 mm and 200 g.
"""


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
    data_home : path-like or None, default=None
        Folder that holds ``abalone.csv.gz``. None reads the environment variable ``SKFAIRDP_DATA``
        and, where the file is not there either, downloads data set 183 from OpenML.
    include_sensitive : bool, default=False
        Whether `data` also has Sex.
    drop_leaks : bool, default=True
        This set has no column that reveals the target; accepted for symmetry.
    download_if_missing : bool, default=True
        Whether OpenML may be asked.
    verify : bool, default=False
        Compare the local file's SHA-256 with the one that published results were made with.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 7 columns in `data`, `target` 1 for ten rings or more, `split`
        for the fairdp subset only.

    Raises
    ------
    FileNotFoundError
        If the rows cannot be found; the message says where to get them.
    ValueError
        If the file is not the expected one, or `subset` is unknown or needs a column it lacks.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_abalone
    >>> fetch_abalone().data.shape  # doctest: +SKIP
    (2835, 7)
    """
    if subset not in _SUBSETS:
        raise ValueError(f"subset is {subset!r}. Allowed are {_SUBSETS!r}.")
    rows, source = read_rows(
        _RAW, data_home, download_if_missing=download_if_missing, verify=verify
    )
    if source.startswith("OpenML"):
        rows = _from_openml(rows, source)
    split = None
    if subset == "fairdp":
        if "fairdp_split" not in rows.columns:
            raise ValueError(
                f"subset='fairdp' needs the column fairdp_split, which {source} does not have. "
                f"Use subset='adults', or name a folder with {_RAW.name} by data_home."
            )
        rows = rows[rows["fairdp_split"] != "none"]
        split = rows["fairdp_split"].to_numpy(dtype=object)
    elif subset == "adults":
        rows = rows[rows["Sex"] != "I"]
    return assemble(
        rows[["Sex", *_BOUNDS]],
        target=(rows["Rings"] >= 10).rename("ten_rings_or_more"),
        target_names=["fewer", "ten rings or more"],
        sensitive_features=chosen_sensitive("sex", {"sex": rows["Sex"]}),
        excluded=() if include_sensitive else ("Sex",),
        leak_columns={},
        drop_leaks=drop_leaks,
        bounds=_BOUNDS,
        categories=_CATEGORIES,
        split=split,
        description=_DESCRIPTION,
        source=source,
    )


def _from_openml(rows: pd.DataFrame, source: str) -> pd.DataFrame:
    """OpenML's table in the shape of the file."""
    rows = rows.rename(columns={"Class_number_of_rings": "Rings"})
    require_columns(rows, _RAW.columns, source)
    rows = rows[list(_RAW.columns)].copy()
    rows["Sex"] = rows["Sex"].astype(str)
    # Rings are a nominal class there.
    rows["Rings"] = rows["Rings"].astype(str).astype(float).astype("int64")
    return rows
