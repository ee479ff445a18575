"""Bins by bounds that were known before the rows were."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skfairdp.parameters import Choice, Number
from skfairdp.preprocessing.columns import (
    all_or_nothing,
    checked,
    column,
    column_names,
    floats,
    positions_of,
)
from skfairdp.preprocessing.levels import Categories, Intervals, Levels, LevelsMixin
from skfairdp.protocol import Certifiable

__all__ = ["PublicBinner"]

ENCODINGS = ("levels", "onehot", "thermometer")
_BINS = Number(2, 4096, integer=True)


class PublicBinner(Certifiable, LevelsMixin, BaseEstimator):
    """Cut columns into bins between declared bounds; missing values are a level of their own.

    A linear model on bins is additive with a step function for each column, and every row has
    as many ones as any other, so that gradients are bounded. The bins follow from what you
    declare alone: ``fit`` learns the names of the columns and nothing else, so the transform
    costs no privacy.

    Parameters
    ----------
    bounds : mapping of column to (low, high), or (low, high)
        Columns of numbers, keyed by column label for a DataFrame and by integer position for an
        array. One pair speaks of every column that is not in `categories`.
        Values outside of their bounds, infinite ones too, fall into the outer bins.
    categories : mapping of column to sequence of categories, or None, default=None
        Columns of categories. Values that are not declared share one level, "(other)".
    n_bins : int, default=32
        Bins of each scale, from 2 to 4096.
    scale : {"both", "linear", "log"}, default="both"
        Bins of equal width, bins of equal width in ``sign(x) * log(1 + abs(x))``, or the edges
        of both.
    encoding : {"levels", "onehot", "thermometer"}, default="levels"
        A DataFrame of categoricals, which :class:`skfairdp.DPAdditiveClassifier` takes; or an
        array of zeros and ones for any other net, with a column for each level, or for each edge
        that a number reaches.
    remainder : {"raise", "drop"}, default="raise"
        What to do with columns that nothing was declared for.

    Attributes
    ----------
    levels_ : tuple of (str, Intervals or Categories)
        Name and levels of each binned column, as declared.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray, shape (n_features,)
        Column labels, when all of them are strings.

    See Also
    --------
    PrivateTableEncoder : Bins that are learned under ε.

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

    _learns_from_rows = False

    def __init__(
        self,
        bounds: Mapping[Any, tuple[float, float]] | tuple[float, float],
        categories: Mapping[Any, Sequence[Hashable]] | None = None,
        *,
        n_bins: int = 32,
        scale: str = "both",
        encoding: str = "levels",
        remainder: str = "raise",
    ) -> None:
        self.bounds = bounds
        self.categories = categories
        self.n_bins = n_bins
        self.scale = scale
        self.encoding = encoding
        self.remainder = remainder

    def fit(self, X: ArrayLike | pd.DataFrame, y: object = None) -> Self:
        """Check the declaration against the columns of ``X``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Its column names and their number are used.
        y : None
            Ignored.

        Returns
        -------
        self : PublicBinner
            This object.

        Raises
        ------
        ValueError
            If a parameter is malformed, a declared column is absent, or a column has no
            declaration and ``remainder="raise"``; or as in :meth:`transform`.
        """
        self._check()
        with all_or_nothing(self):
            X = checked(self, X, reset=True, mixed=True)
            names = column_names(X, self.n_features_in_)
            named = self.bounds if isinstance(self.bounds, Mapping) else {}
            positions_of([*named, *(self.categories or {})], names, "bounds or categories")
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
            self._coded(X)
        return self

    def transform(self, X: ArrayLike | pd.DataFrame) -> pd.DataFrame | NDArray[np.float64]:
        """Bin the declared columns.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Rows with the columns of ``fit``.

        Returns
        -------
        DataFrame or ndarray of float64
            As `encoding` says, in the order of the columns.

        Raises
        ------
        ValueError
            If a column with bounds holds something that is not a number.
        """
        check_is_fitted(self, "levels_")
        X = checked(self, X, reset=False, mixed=True)
        return self._output(self._coded(X), X)

    def _coded(self, X: Any) -> list[NDArray[np.int64]]:
        names = column_names(X, self.n_features_in_)
        places = [i for i, name in enumerate(names) if self._declared(name)]
        codes = []
        for place, (_, level) in zip(places, self.levels_, strict=True):
            values = column(X, place)
            if isinstance(level, Intervals):
                numbers = floats(values, names[place], np.float64, "has declared bounds")
                codes.append(level.codes(numbers))
            else:
                codes.append(level.codes(values))
        return codes

    def _declared(self, name: Hashable) -> bool:
        everything = not isinstance(self.bounds, Mapping)
        return everything or name in self.bounds or name in (self.categories or {})

    def _levels(self, name: Hashable) -> Levels:
        if name in (self.categories or {}):
            return Categories(tuple((self.categories or {})[name]))
        pair = self.bounds[name] if isinstance(self.bounds, Mapping) else self.bounds
        low, high = map(float, pair)
        shares = np.arange(1, self.n_bins) / self.n_bins
        linear = low + (high - low) * shares
        first, last = (math.copysign(math.log1p(abs(end)), end) for end in (low, high))
        bent = first + (last - first) * shares
        log = np.copysign(np.expm1(np.abs(bent)), bent)
        chosen = {"linear": linear, "log": log, "both": np.concatenate([linear, log])}[self.scale]
        return Intervals(tuple(np.unique(chosen + 0.0).tolist()))

    def _check(self) -> None:
        for name, allowed in (
            ("scale", Choice(("both", "linear", "log"))),
            ("encoding", Choice(ENCODINGS)),
            ("remainder", Choice(("raise", "drop"))),
            ("n_bins", _BINS),
        ):
            if not allowed.accepts(getattr(self, name)):
                raise ValueError(
                    f"{name!r} must be {allowed.describe()}; got {getattr(self, name)!r}."
                )
        if not isinstance(self.categories or {}, Mapping):
            raise ValueError(f"'categories' must be a mapping; got {self.categories!r}.")
        named = self.bounds if isinstance(self.bounds, Mapping) else {"every column": self.bounds}
        both = [name for name in named if name in (self.categories or {})]
        if both:
            raise ValueError(f"Columns {both!r} have both bounds and categories; declare one.")
        for name, bounds in named.items():
            _refuse_bounds(name, bounds)
        for name, listed in (self.categories or {}).items():
            _refuse_categories(name, listed)


def _refuse_bounds(name: Hashable, bounds: Any) -> None:
    pair = isinstance(bounds, Sequence | np.ndarray) and len(bounds) == 2
    number = Number(-1e300, 1e300)
    if not pair or not all(map(number.accepts, bounds)) or not bounds[0] < bounds[1]:
        raise ValueError(
            f"bounds[{name!r}] is {bounds!r}. Allowed is a pair of finite numbers, low < high."
        )


def _refuse_categories(name: Hashable, listed: Any) -> None:
    ok = isinstance(listed, Iterable) and not isinstance(listed, str)
    values = list(listed) if ok else []
    if not values or not all(isinstance(one, Hashable) and not pd.isna(one) for one in values):
        raise ValueError(
            f"categories[{name!r}] is {listed!r}. Allowed is a list of texts or numbers; missing "
            "values have a level of their own."
        )
    if len(set(values)) != len(values):
        raise ValueError(f"categories[{name!r}] repeats a category. Declare each one once.")
