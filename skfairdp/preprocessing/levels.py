"""Levels of one column: intervals of a number, or categories, and missing values.

A table of levels is a DataFrame of pandas categoricals. Their dtypes carry intervals and
categories from step to step of a Pipeline, and a missing value stays a missing value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from skfairdp.base.predictors import expecting
from skfairdp.foundation.scikit_learn import TransformerMixin
from skfairdp.records.labels import positions
from skfairdp.records.stored_rows import StoredRows, refuse_changes

DAYS = " (days since 1970)"  # ends the name of a column of days
FIRST = date(1970, 1, 1).toordinal()  # A Thursday
# Where a value goes that is none of the categories.
OTHER = "(other)"
_ZERO = 1e-30
# Zeros and ones (512 MiB of them) from which one column for each level is a sparse array.
DENSE = 2**26


@dataclass(frozen=True)
class Intervals:
    """Intervals, closed on the left, that cover all numbers."""

    edges: tuple[float, ...]  # Inner edges, finite and ascending

    @property
    def count(self) -> int:
        """Number of levels, a missing value not counted."""
        return len(self.edges) + 1

    def dtype(self) -> pd.CategoricalDtype:
        """Return the dtype of the encoded column."""
        breaks = pd.IntervalIndex.from_breaks([-math.inf, *self.edges, math.inf], closed="left")
        return pd.CategoricalDtype(breaks, ordered=True)

    def codes(self, numbers: NDArray[np.floating]) -> NDArray[np.int64]:
        """Number of the interval of each value; -1 for NaN."""
        found = np.searchsorted(np.asarray(self.edges, dtype=np.float64), numbers, side="right")
        return np.where(np.isnan(numbers), -1, found).astype(np.int64)


@dataclass(frozen=True)
class Categories:
    """Categories, and one level for all others."""

    known: tuple[Hashable, ...]  # Distinct

    @property
    def count(self) -> int:
        """Number of levels, a missing value not counted."""
        return len(self.known) + (OTHER not in self.known)

    def dtype(self) -> pd.CategoricalDtype:
        """Return the dtype of the encoded column."""
        others = () if OTHER in self.known else (OTHER,)
        return pd.CategoricalDtype(pd.Index([*self.known, *others], dtype=object))

    def codes(self, values: pd.Series | NDArray[np.object_]) -> NDArray[np.int64]:
        """Number of the category of each value; -1 for a missing one."""
        found = positions(values, self.known)
        other = self.known.index(OTHER) if OTHER in self.known else len(self.known)
        found = np.where(found < 0, other, found)
        return np.where(pd.isna(np.asarray(values, dtype=object)), -1, found)


Levels = Intervals | Categories


def public_intervals(low: float, high: float, n_bins: int, scale: str = "both") -> Intervals:
    """Intervals between public bounds.

    `scale`: "linear" for equal widths, "log" for equal widths in ``sign(x) * log(1 + abs(x))``,
    "both" for the edges of both.
    """
    shares = np.arange(1, n_bins) / n_bins
    linear = low + (high - low) * shares
    first, last = (math.copysign(math.log1p(abs(end)), end) for end in (low, high))
    bent = first + (last - first) * shares
    log = np.copysign(np.expm1(np.abs(bent)), bent)
    chosen = {"linear": linear, "log": log, "both": np.concatenate([linear, log])}[scale]
    return Intervals(tuple(np.unique(chosen + 0.0).tolist()))


def level_names(dtype: pd.CategoricalDtype, column: Hashable = "") -> list[str]:
    """Names of the levels of a column, "missing" last."""
    show = _shown_in(column)
    names = [
        _of_interval(n, show) if isinstance(n, pd.Interval) else str(n) for n in dtype.categories
    ]
    return [*names, "missing"]


def _shown_in(column: Hashable) -> Callable[[float], str]:
    """How the numbers of a column are shown."""
    return _date if str(column).endswith(DAYS) else "{:.6g}".format


def _date(days: float) -> str:
    """The date from which on, or before which, as a day is not parted."""
    try:
        return date.fromordinal(math.ceil(days) + FIRST).isoformat()
    except (OverflowError, ValueError):  # beyond the last date
        return f"{days:.6g}"


def _of_interval(interval: pd.Interval, show: Callable[[float], str]) -> str:
    low, high = interval.left, interval.right
    # What is above 0 and at most so large counts as 0.
    below = "<= 0" if 0.0 < high < _ZERO else f"< {show(high)}"
    above = "> 0" if 0.0 < low < _ZERO else f">= {show(low)}"
    ends = (text for end, text in ((low, above), (high, below)) if math.isfinite(end))
    return " and ".join(ends) or "a number"


def encoded_levels(table: pd.DataFrame, encoding: str) -> tuple[NDArray[np.float64], list[str]]:
    """Turn a table of levels into numbers and names of their columns.

    "onehot": one column for each level, of which a row has one. "thermometer": for intervals, one
    for each edge, which a row has if it is not below it. Missing values have their own column.
    """
    listed = [level_names(table[name].dtype, name) for name in table.columns]
    bent = [encoding == "thermometer" and bool(table[name].cat.ordered) for name in table.columns]
    widths = [len(labels) - edges for labels, edges in zip(listed, bent, strict=True)]
    found = np.zeros((len(table), sum(widths)))
    rows, start = np.arange(len(table)), 0
    names: list[str] = []
    for name, labels, edges, width in zip(table.columns, listed, bent, widths, strict=True):
        codes = table[name].cat.codes.to_numpy().astype(np.int64)
        codes[codes < 0] = len(labels) - 1  # missing values come last
        if edges:
            # A row for each level, that of a missing value last.
            code_of = np.eye(len(labels))
            code_of[:-1, :-1] = np.tri(len(labels) - 1)
            found[:, start : start + width] = code_of[codes, 1:]
            show = _shown_in(name)
            starts = [f">= {show(one.left)}" for one in table[name].cat.categories[1:]]
            labels = [*starts, "missing"]
        else:
            found[rows, start + codes] = 1.0
        names += [f"{name} {label}" for label in labels]
        start += width
    return found, names


def sparse_levels(table: pd.DataFrame) -> csr_array:
    """Turn a table of levels into a sparse array, equal to what "onehot" of `encoded_levels` is."""
    counts = [len(table[name].cat.categories) + 1 for name in table.columns]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    places = np.empty((len(table), len(counts)), dtype=np.int32)
    for at, name in enumerate(table.columns):
        codes = table[name].cat.codes.to_numpy()
        places[:, at] = starts[at] + np.where(codes < 0, counts[at] - 1, codes)
    ends = np.arange(len(table) + 1, dtype=np.int64) * len(counts)
    ones = np.ones(places.size, dtype=np.float32)
    return csr_array((ones, places.ravel(), ends), shape=(len(table), int(starts[-1])))


class LevelsMixin(TransformerMixin):
    """Mixin of transformers that return levels, in the form named by `encoding`.

    Parameters
    ----------
    encoding : {"levels", "onehot", "thermometer"}
        A pandas DataFrame of categoricals, which :class:`skfairdp.DPAdditiveClassifier` takes; or
        an array of zeros and ones for any other net, with a column for each level, or for each edge
        that a number reaches.
    sparse_output : bool or "auto", default="auto"
        Whether "onehot" gives a sparse array of scipy, whose rows estimators read a batch at a
        time; "auto" does so where a dense array of the rows would hold 2**26 numbers or more.

    Attributes
    ----------
    levels_ : tuple of (str, Intervals or Categories)
        Name and levels of each column that is put out.
    """

    _from_disk = True  # rows may lie there, and are read in parts

    encoding: str
    sparse_output: bool | str
    levels_: tuple[tuple[str, Levels], ...]
    n_features_in_: int

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the output columns.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Ignored: the names are those of ``fit``.

        Returns
        -------
        names : ndarray of shape (n_features_out,) of str
        """
        check_is_fitted(self)
        empty = self._frame([np.empty(0, dtype=np.int64)] * len(self.levels_), None)
        listed = self.encoding == "levels"
        names = list(empty) if listed else encoded_levels(empty, self.encoding)[1]
        return np.array(names, dtype=object)

    def _frame(self, codes: Sequence[NDArray[np.int64]], index: pd.Index | None) -> pd.DataFrame:
        """Return a table of levels from codes, column by column."""
        columns = {
            name: pd.Categorical.from_codes(code, dtype=level.dtype())
            for (name, level), code in zip(self.levels_, codes, strict=True)
        }
        return pd.DataFrame(columns, index=index)

    def _output(self, tables: list[pd.DataFrame], X: Any) -> Any:
        """Output of `transform` for checked rows, from the tables of their parts."""
        table = tables[0]
        if isinstance(X, StoredRows):
            refuse_changes(X)
            table = pd.concat(tables, ignore_index=True)
        if self.encoding == "levels":
            return table
        width = sum(level.count + 1 for _, level in self.levels_)
        large = len(table) * width >= DENSE if self.sparse_output == "auto" else self.sparse_output
        if self.encoding == "onehot" and large:
            return sparse_levels(table)
        return encoded_levels(table, self.encoding)[0]

    def _labels(self) -> list[str]:
        """Names of all columns of the input."""
        named = getattr(self, "feature_names_in_", None)
        if named is not None:
            return [str(name) for name in named]
        return [f"x{place}" for place in range(self.n_features_in_)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return expecting(tags)
