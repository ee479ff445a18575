"""Scaling by declared bounds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags

from skfairdp.base.predictors import expecting
from skfairdp.foundation.scikit_learn import OneToOneFeatureMixin
from skfairdp.preprocessing import columns

Interval = tuple[float, float]


class PublicScaler(OneToOneFeatureMixin, columns.DeclaredTransformer):
    """Clip columns to declared bounds and map these bounds to one range.

    A :class:`~sklearn.preprocessing.StandardScaler` publishes means and variances of the rows it
    was fitted on, and so spends privacy that is not counted. This scaler uses only bounds that you
    declare: ``fit`` learns the number and the names of the columns and nothing else, so the
    transform costs no privacy. Declare what the codebook or common sense allows (ages from 17 to
    90), never the smallest and the largest value in the rows.

    Parameters
    ----------
    bounds : mapping of column to (low, high), array-like of shape (n_features, 2) or (low, high)
        A mapping is keyed by column label for a DataFrame and by integer position for an array;
        columns it does not name pass through unchanged. One pair speaks of every column, an array
        of one column per row. Values outside are clipped.
    feature_range : (float, float), default=(-1.0, 1.0)
        Where the low and the high bound are mapped to.
    log_columns : iterable of columns, default=()
        Columns that are bent by ``sign(x) * log(1 + abs(x))`` before the linear map, for heavy
        tails such as money. Each must be declared in `bounds`.
    fill : None, float or mapping of column to float, default=None
        What a missing value (NaN, None, pd.NA) of a declared column is replaced by, in the
        column's own unit. Without a constant a missing value is refused.

    See Also
    --------
    PublicEncoder : One-hot encoding of declared categories.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfairdp.preprocessing import PublicScaler
    >>> people = pd.DataFrame({"age": [17, 90, 120], "city": ["Rome", "Oslo", "Oslo"]})
    >>> PublicScaler({"age": (17, 90)}).fit_transform(people)
       age  city
    0 -1.0  Rome
    1  1.0  Oslo
    2  1.0  Oslo
    """

    bounds: Mapping[Any, Interval] | ArrayLike = field(kw_only=False)
    feature_range: Interval = (-1.0, 1.0)
    log_columns: Iterable[Hashable] = ()
    fill: float | Mapping[Any, float] | None = None

    @property
    def _mixed(self) -> bool:
        return isinstance(self.bounds, Mapping)

    def _check(self, X: Any) -> None:
        self._read(X)

    def transform(self, X: ArrayLike | pd.DataFrame) -> NDArray[Any] | pd.DataFrame:
        """Scale the declared columns.

        Returns
        -------
        scaled : ndarray or DataFrame of shape (n_samples, n_features)
            A DataFrame for a DataFrame (so that a later step finds columns by name). Declared
            columns are float32 if all of them were, else float64.

        Raises
        ------
        ValueError
            If a declared column holds text, an infinite value, or a missing one without `fill`.
        """
        rows = self._rows(X)
        positions, values, limits, bent = self._read(rows)
        dtype = values.dtype
        low, high = limits[:, 0], limits[:, 1]
        values = np.clip(values, low.astype(dtype), high.astype(dtype))
        if bent.any():
            values[:, bent] = _bend(values[:, bent])
            low, high = np.where(bent, _bend(low), low), np.where(bent, _bend(high), high)
        bottom, top = (float(end) for end in self.feature_range)
        # Divide before subtracting, so that bounds as wide as the floats do not overflow.
        share = (values / 2 - low / 2) / (high / 2 - low / 2)
        # Rounding may leave the range by an ulp; clipping norms downstream rely on the range.
        scaled = np.clip(share * (top - bottom) + bottom, bottom, top).astype(dtype, copy=False)
        return columns.replaced(X if columns.is_polars(X) else rows, positions, scaled)

    def _read(
        self, X: Any
    ) -> tuple[list[int], NDArray[np.floating], NDArray[np.float64], NDArray[np.bool_]]:
        """Positions of the declared columns, their filled values, limits, whether bent."""
        names = columns.column_names(X)
        where, limits, bent, filled = self._declared(names)
        found = [columns.column(X, position) for position in where.values()]
        single = bool(found) and all(c.dtype in (np.float16, np.float32) for c in found)
        dtype = np.float32 if single else np.float64
        values = np.empty((len(X), len(found)), dtype=dtype)
        for index, (name, one) in enumerate(zip(where, found, strict=True)):
            values[:, index] = columns.floats(one, name, dtype, "is declared in bounds")
        if endless := _columns_with(np.isinf(values), where):
            raise ValueError(
                f"Input X contains infinity in {endless}. PublicScaler takes finite numbers; "
                "replace it by a bound, or by NaN with fill."
            )
        gap = np.isnan(values)
        if bare := _columns_with(gap & np.isnan(filled), where):
            raise ValueError(
                f"Input X contains NaN in {bare}, and PublicScaler does not guess. Give a constant "
                "that does not come from the rows (fill={column: constant}), or take "
                "PrivateTableEncoder, where missing values are a level of their own."
            )
        values = np.where(gap, filled.astype(dtype), values)
        return list(where.values()), values, limits, bent

    def _declared(
        self, names: list[Hashable]
    ) -> tuple[dict[Hashable, int], NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
        """Positions, limits (d, 2), whether bent (d,), constant for missing values (d,)."""
        columns.interval(self.feature_range, "feature_range")
        bounds = self.bounds
        if not isinstance(bounds, Mapping):
            table = np.asarray(bounds, dtype=object)
            if table.shape not in ((2,), (len(names), 2)):
                raise ValueError(
                    f"bounds has shape {table.shape}. Allowed are (2,) for one pair and "
                    f"({len(names)}, 2), one row for each column of X; or give a mapping."
                )
            each = np.broadcast_to(table, (len(names), 2)).tolist()
            bounds = dict(zip(names, map(tuple, each), strict=True))
        where = columns.positions_of(bounds, names, "bounds")
        pairs = [columns.interval(bounds[name], f"bounds[{name!r}]") for name in where]
        log_columns = [self.log_columns] if isinstance(self.log_columns, str) else self.log_columns
        bent = np.zeros(len(where), dtype=bool)
        bent[list(columns.positions_of(log_columns, list(where), "log_columns").values())] = True
        filled = np.full(len(where), np.nan)
        if isinstance(self.fill, Mapping):
            for name, index in columns.positions_of(self.fill, list(where), "fill").items():
                filled[index] = float(self.fill[name])
        elif self.fill is not None:
            filled[:] = float(self.fill)
        return where, np.array(pairs, dtype=float).reshape(-1, 2), bent, filled

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.fill is not None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return expecting(tags)


def _columns_with(wrong: NDArray[np.bool_], names: Iterable[Hashable]) -> list[Hashable]:
    return [name for name, found in zip(names, wrong.T, strict=True) if found.any()]


def _bend(values: NDArray[Any]) -> NDArray[Any]:
    return np.sign(values) * np.log1p(np.abs(values))
