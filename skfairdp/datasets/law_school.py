"""LSAC law school study: who passes the bar examination?"""

from __future__ import annotations

import os
from collections.abc import Sequence

from sklearn.utils import Bunch

from skfairdp.documentation import completed_by

from .assembly import assemble
from .source import read_card, read_rows

_CARD = read_card("law_school")


@completed_by(_CARD.docstring)
def fetch_law_school(
    *,
    sensitive: str | Sequence[str] = "race",
    data_home: str | os.PathLike[str] | None = None,
    include_sensitive: bool = False,
    drop_leaks: bool = True,
    verify: bool = False,
) -> Bunch:
    """Load the cleaned LSAC study: does a law student pass the bar?

    Parameters
    ----------
    sensitive : {"race", "sex"} or list of them, default="race"
        What to return as `sensitive_features`.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`: 20,798 rows, 10 columns in `data`, `target` 1 for passing (the
        favourable outcome), no `split`.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_law_school
    >>> fetch_law_school().data.shape  # doctest: +SKIP
    (20798, 10)
    """
    rows, source = read_rows(_CARD.file, data_home, verify)
    available = {"race": rows["race"], "sex": rows["male"].map({1: "male", 0: "female"})}
    return assemble(
        rows[[*_CARD.bounds, *_CARD.categories]],
        _CARD,
        target=rows["pass_bar"],
        target_names=["fails", "passes"],
        sensitive=sensitive,
        available=available,
        columns={"sex": "male"},
        include_sensitive=include_sensitive,
        drop_leaks=drop_leaks,
        source=source,
    )
