"""One-hot encoding of declared categories."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils import Tags

from skfairdp.base.predictors import MISSING_IS_UNKNOWN, expecting
from skfairdp.foundation.parameters import MAPPING, Choice
from skfairdp.preprocessing import columns
from skfairdp.records.labels import positions


class PublicEncoder(columns.DeclaredTransformer):
    """One-hot encode declared categories; other columns pass through as floats.

    A :class:`~sklearn.preprocessing.OneHotEncoder` that looks for its categories in the rows
    publishes which values occur, down to a value that one person has. This encoder knows only the
    categories that you declare: ``fit`` learns the number and the names of the columns and nothing
    else, so the transform costs no privacy.

    Parameters
    ----------
    categories : mapping of column to sequence of categories
        Keyed by column label for a DataFrame and by integer position for an array. Columns it
        does not name pass through as floats.
    handle_unknown : {"ignore", "error"}, default="ignore"
        What to do with a value (a missing one included) outside of its declared categories:
        encode it as zeros everywhere, or refuse it. The default never raises on what a row holds.
    drop : {"if_binary"} or None, default=None
        With "if_binary" a column of two categories becomes one output column, 1 for the second
        of them; an unknown value then looks like the first.
    dtype : dtype, default=numpy.float64
        Floating dtype of the output.

    See Also
    --------
    PublicScaler : Scaling by declared bounds.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfairdp.preprocessing import PublicEncoder
    >>> flats = pd.DataFrame({"rooms": [2, 3], "city": ["Oslo", "Bonn"]})
    >>> encoder = PublicEncoder({"city": ["Oslo", "Rome"]}).fit(flats)
    >>> encoder.transform(flats)
    array([[2., 1., 0.],
           [3., 0., 0.]])
    >>> encoder.get_feature_names_out().tolist()
    ['rooms', 'city_Oslo', 'city_Rome']
    """

    categories: Mapping[Any, Sequence[Hashable]] = field(kw_only=False)
    handle_unknown: str = "ignore"
    drop: str | None = None
    dtype: DTypeLike = np.float64

    _parameters = {
        "categories": (MAPPING,),
        "handle_unknown": (Choice(("ignore", "error")),),
        "drop": (Choice((None, "if_binary")),),
    }

    @property
    def _mixed(self) -> bool:
        return bool(self.categories)

    def _check(self, X: Any) -> None:
        if np.dtype(self.dtype).kind != "f":
            raise ValueError(f"dtype is {self.dtype!r}. Allowed are floating dtypes.")
        columns.refuse_categories(self.categories)
        names = columns.column_names(X)
        for name, place in columns.positions_of(self.categories, names, "categories").items():
            dtype = columns.column(X, place).dtype
            texts = [isinstance(category, str) for category in self.categories[name]]
            numbers, text = pd.api.types.is_numeric_dtype(dtype), isinstance(dtype, pd.StringDtype)
            if (numbers and all(texts)) or (text and not any(texts)):
                raise ValueError(
                    f"categories[{name!r}] and column {name!r} are of different kinds: text "
                    f"against numbers (dtype {dtype}). Every row would be unknown; convert one of "
                    "them."
                )
        self._encoded(X)

    def transform(self, X: ArrayLike | pd.DataFrame) -> NDArray[np.floating]:
        """Encode the declared columns.

        Returns
        -------
        encoded : ndarray of shape (n_samples, n_features_out)
            A declared column is replaced, in its place, by one column for each category.

        Raises
        ------
        ValueError
            If a column without declared categories holds anything but finite numbers, or, with
            ``handle_unknown="error"``, a declared one holds an unknown value.
        """
        return self._encoded(self._rows(X))

    def _encoded(self, X: Any) -> NDArray[np.floating]:
        names = columns.column_names(X)
        widths = [len(self._outputs(name)) for name in names]
        encoded = np.zeros((len(X), sum(widths)), dtype=self.dtype)
        start = 0
        for position, (name, width) in enumerate(zip(names, widths, strict=True)):
            values = columns.column(X, position)
            if name in self.categories:
                self._encode(values, name, encoded[:, start : start + width])
            else:
                numbers = columns.floats(values, name, np.float64, "has no declared categories")
                if not np.isfinite(numbers).all():
                    raise ValueError(
                        f"Input X contains NaN or infinity in column {name!r}, which has no "
                        "declared categories. Fill it first, for example with PublicScaler(..., "
                        "fill={column: constant})."
                    )
                encoded[:, start] = numbers
            start += width
        return encoded

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the output columns.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the input columns; taken from ``fit`` where absent.

        Returns
        -------
        names : ndarray of shape (n_features_out,) of str
            ``column`` where passed through, ``column_category`` where encoded.
        """
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        named = hasattr(self, "feature_names_in_")
        found = [
            name if output is None else f"{name}_{output}"
            for position, name in enumerate(names)
            for output in self._outputs(name if named else position)
        ]
        return np.array(found, dtype=object)

    def _outputs(self, name: Hashable) -> list[Hashable | None]:
        """Categories that get an output column; ``[None]`` for a column passed through."""
        if name not in self.categories:
            return [None]
        categories = list(self.categories[name])
        return categories[1:] if self.drop and len(categories) == 2 else categories

    def _encode(self, values: pd.Series, name: Hashable, out: NDArray[np.floating]) -> None:
        categories = list(self.categories[name])
        codes = positions(values, categories)
        if self.handle_unknown == "error" and (codes < 0).any():
            raise ValueError(
                f"Column {name!r} holds a value outside of its declared categories "
                f"{categories!r}. Declare it, or set handle_unknown='ignore'."
            )
        codes = codes - (len(categories) - out.shape[1])
        rows = np.flatnonzero(codes >= 0)
        out[rows, codes[rows]] = 1.0

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = bool(self.categories)
        tags.transformer_tags.preserves_dtype = []
        return expecting(tags, MISSING_IS_UNKNOWN if self.categories else {})
