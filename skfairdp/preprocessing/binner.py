"""Bins by declared bounds and categories."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.foundation.parameters import BOOLEAN, MAPPING, NONE, Choice, Number
from skfairdp.preprocessing import columns
from skfairdp.preprocessing.levels import (
    Categories,
    Intervals,
    Levels,
    LevelsMixin,
    public_intervals,
)
from skfairdp.records.stored_rows import StoredRows

ENCODINGS = ("levels", "onehot", "thermometer")


class PublicBinner(LevelsMixin, columns.DeclaredTransformer):
    """Cut columns into bins between declared bounds; missing values are a level of their own.

    A linear model on bins is additive with a step function for each column, and every row has as
    many ones as any other, so that gradients are bounded. The bins follow from what you declare
    alone: ``fit`` learns the names of the columns and nothing else, which costs no privacy.

    Parameters
    ----------
    bounds : mapping of column to (low, high), or (low, high)
        Columns of numbers, by label for a DataFrame and by position for an array. One pair is for
        all columns that are not in `categories`. Values outside, infinite ones too, fall into the
        outer bins.
    categories : mapping of column to sequence of categories, or None, default=None
        Columns of categories. Values that are not declared share one level, "(other)".
    n_bins : int, default=32
        Bins of each scale, from 2 to 4096.
    scale : {"both", "linear", "log"}, default="both"
        Bins of equal width, of equal width in ``sign(x) * log(1 + abs(x))``, or the edges of both.
    remainder : {"raise", "drop"}, default="raise"
        What to do with columns that nothing was declared for.

    See Also
    --------
    skfairdp.PrivateTableEncoder : Bins that are learned under ε.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfairdp.preprocessing import PublicBinner
    >>> flats = pd.DataFrame({"rooms": [2, None, 9], "city": ["Oslo", "Bonn", None]})
    >>> binner = PublicBinner({"rooms": (0, 8)}, {"city": ["Oslo"]}, n_bins=2, scale="linear")
    >>> print(binner.fit_transform(flats))
             rooms     city
    0  [-inf, 4.0)     Oslo
    1          NaN  (other)
    2   [4.0, inf)      NaN
    """

    bounds: Mapping[Any, tuple[float, float]] | tuple[float, float] = field(kw_only=False)
    categories: Mapping[Any, Sequence[Hashable]] | None = field(default=None, kw_only=False)
    n_bins: int = 32
    scale: str = "both"
    encoding: str = "levels"
    sparse_output: bool | str = "auto"
    remainder: str = "raise"

    _parameters = {
        "categories": (MAPPING, NONE),
        "n_bins": (Number(2, 4096, integer=True),),
        "scale": (Choice(("both", "linear", "log")),),
        "encoding": (Choice(ENCODINGS),),
        "sparse_output": (BOOLEAN, Choice(("auto",))),
        "remainder": (Choice(("raise", "drop")),),
    }

    levels_: tuple[tuple[str, Levels], ...] = field(init=False)

    def _check(self, X: Any) -> None:
        categories = self.categories or {}
        named = self.bounds if isinstance(self.bounds, Mapping) else {}
        if both := [name for name in named if name in categories]:
            raise ValueError(f"Columns {both!r} have both bounds and categories; declare one.")
        columns.refuse_categories(categories)
        names = columns.column_names(X)
        columns.positions_of([*named, *categories], names, "bounds or categories")
        rest = [name for name in names if not self._declared(name)]
        if rest and self.remainder == "raise":
            raise ValueError(
                f"Columns {rest!r} have neither bounds nor categories. Declare them, or drop "
                "them with remainder='drop', or let PrivateTableEncoder learn what they hold."
            )
        self.levels_ = tuple(
            (label, self._levels(name))
            for label, name in zip(self._labels(), names, strict=True)
            if self._declared(name)
        )
        if not isinstance(X, StoredRows):  # which hold numbers
            self._coded(X)

    def transform(self, X: ArrayLike | pd.DataFrame) -> pd.DataFrame | NDArray[np.float64]:
        """Bin the declared columns; rows on disk are read in one pass.

        Returns
        -------
        DataFrame or ndarray of float64
            As `encoding` says, in the order of the columns.

        Raises
        ------
        ValueError
            If a column with bounds holds something that is not a number.
        """
        X = self._rows(X)
        parts = X.chunks() if isinstance(X, StoredRows) else (X,)
        tables = [self._frame(self._coded(p), getattr(p, "index", None)) for p in parts]
        return self._output(tables, X)

    def _coded(self, X: Any) -> list[NDArray[np.int64]]:
        places = [(i, n) for i, n in enumerate(columns.column_names(X)) if self._declared(n)]
        codes = []
        for (place, name), (_, level) in zip(places, self.levels_, strict=True):
            values: Any = columns.column(X, place)
            if isinstance(level, Intervals):
                values = columns.floats(values, name, np.float64, "has declared bounds")
            codes.append(level.codes(values))
        return codes

    def _declared(self, name: Hashable) -> bool:
        bounds, listed = self.bounds, self.categories or {}
        return not isinstance(bounds, Mapping) or name in bounds or name in listed

    def _levels(self, name: Hashable) -> Levels:
        if name in (listed := self.categories or {}):
            return Categories(tuple(listed[name]))
        pair = self.bounds[name] if isinstance(self.bounds, Mapping) else self.bounds
        low, high = columns.interval(pair, f"bounds of {name!r}", largest=1e300)
        return public_intervals(low, high, self.n_bins, self.scale)
