"""ProPublica COMPAS: charges within two years."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from sklearn.utils import Bunch

from skfairdp.foundation.documentation import completed_by

from .source import Request, read, read_card, refuse_other, require_columns

_CARD = read_card("compas")
_FEATURES = _CARD.file.columns[:8]
# The split is part of the data set: it must always be the same, so its seed is fixed.
_SPLIT_SEED, _N_TRAIN = 20_160_523, 4_320


@completed_by(_CARD.docstring)
def fetch_compas(
    *,
    sensitive: str | Sequence[str] = "race",
    standard_filter: bool = True,
    version: str = "standard",
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load ProPublica's COMPAS table: is a defendant charged again within two years?

    Parameters
    ----------
    sensitive : {"race", "sex"} or list of them, default="race"
        What to return as `sensitive_features`.
    standard_filter : bool, default=True
        Keep only the 6,172 rows of ProPublica's analysis.
    version : {"standard", "ten"}, default="standard"
        "ten": ten attributes, target 1 for NO new charge, race in two groups, and a split, as in
        papers on fair representations. Needs ``standard_filter=True``.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 7 columns in `data`, 5 of int64 (age in years, numbers of
        charges) and 2 of text; `target` 1 for a recidivist (the unfavourable outcome), no `split`;
        with ``version="ten"`` up to 10 columns and a `split`.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_compas
    >>> fetch_compas(sensitive="sex").data.shape  # doctest: +SKIP
    (6172, 7)
    """
    rows, source, assemble = read(
        _CARD,
        Request(
            data_home=data_home,
            include_sensitive=include_sensitive,
            drop_leaks=drop_leaks,
            verify=verify,
            sensitive=sensitive,
        ),
    )
    if standard_filter:
        rows = rows[rows["standard_filter"] == 1]
    refuse_other("version", version, ("standard", "ten"))
    target, names = rows["two_year_recid"], list(_CARD.target_names)
    available = {name: rows[name] for name in ("race", "sex")}
    features, split = list(_FEATURES), None
    if version == "ten":
        if not standard_filter:
            raise ValueError(
                "version='ten' is made of the filtered rows: set standard_filter=True."
            )
        require_columns(rows, ["age_cat", "c_charge_desc"], source)
        known = rows["c_charge_desc"].isin(_CARD.categories["c_charge_desc"])
        rows = rows.assign(c_charge_desc=rows["c_charge_desc"].where(known, "other charge"))
        target, names = (1 - target).rename("no_recid"), names[::-1]
        available["race"] = rows["race"].where(rows["race"] == "African-American", "other")
        features += ["age_cat", "c_charge_desc"]
        split = np.full(len(rows), "test", dtype=object)
        split[np.random.default_rng(_SPLIT_SEED).permutation(len(rows))[:_N_TRAIN]] = "train"
    return assemble(
        rows[[*features, *_CARD.leaks]],
        target=target,
        target_names=names,
        available=available,
        split=split,
    )
