"""Forward passes from rows to releases, and from releases to labels and rows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from skfairdp.foundation.documentation import completed_by
from skfairdp.receipts.digests.digest import state_digest
from skfairdp.records.groups import encode_groups
from skfairdp.records.rows import check_features
from skfairdp.representation.randomizers import ResponseRandomizer
from skfairdp.representation.releasing import ReleasesRepresentation

if TYPE_CHECKING:
    from torch import Tensor, nn

    from skfairdp.representation.objective import ColumnTypes


_ROUTED = ("ids", "sensitive_features")


def without_ids(X: Any, id_column: Hashable | None) -> tuple[Any, Any]:
    """Take the column of ids, if there is one, out of a table: the other columns, and the ids."""
    if id_column is None:
        return X, None
    if isinstance(X, pd.DataFrame):
        found = list(X.columns).count(id_column)
        if found != 1:
            raise ValueError(
                f"'id_column' is {id_column!r}, and X has {found} columns of that name; it must "
                "have exactly one."
            )
        return X.drop(columns=[id_column]), X[id_column].to_numpy(dtype=object)
    table = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)
    whole = isinstance(id_column, int | np.integer) and not isinstance(id_column, bool)
    width = table.shape[1] if table.ndim == 2 else 0
    if not (whole and -width <= id_column < width):  # type: ignore[operator]
        raise ValueError(
            f"'id_column' is {id_column!r}; for an X that is not a DataFrame give the position of "
            f"a column, an integer below {width}."
        )
    place = int(id_column)  # type: ignore[call-overload]
    return np.delete(table, place, axis=1), table[:, place]


def _each_by_itself(module: nn.Module, rows: Tensor) -> Tensor:
    """Encode rows as if each were alone, so that no net, whatever it does, can mix them."""
    import torch

    from skfairdp.engine.inference import outputs_by_row
    from skfairdp.representation.training import Encoder

    encoder = Encoder(module)
    try:
        return outputs_by_row(encoder, rows)
    except RuntimeError:  # it can't be vectorised, which does not depend on what rows hold
        return torch.cat([encoder(row[None]) for row in rows])


class ReleasesThroughNetworks(ReleasesRepresentation):
    """Template of a trained encoder: its releases, and the reconstructions of decoders."""

    # With routing on, ids and groups reach every release without a call.
    __metadata_request__predict: ClassVar[dict[str, bool]] = dict.fromkeys(_ROUTED, True)
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = dict.fromkeys(_ROUTED, True)
    __metadata_request__transform: ClassVar[dict[str, bool]] = dict.fromkeys(_ROUTED, True)

    id_column: Any
    net: Any
    bound_: float = field(init=False)
    classes_: NDArray[Any] = field(init=False)
    codebook_: NDArray[np.float64] | None = field(init=False)
    column_types_: ColumnTypes | None = field(init=False)
    groups_: tuple | None = field(init=False)
    module_: nn.Module = field(init=False)
    output_: str = field(init=False)
    sees_group_: bool = field(init=False)

    @property
    def _group_blind(self) -> bool:  # type: ignore[override]
        return not self.sees_group_

    def _hidden(self, X: NDArray[Any]) -> NDArray[Any]:
        """What a randomiser takes: representations in the box, or codes.

        How a product of matrices rounds depends on their size. So an encoder gets the same
        number of rows each time, filled up with zeros: a row is then encoded to the very same
        numbers whatever the other rows, and with ids released alike.
        """
        import torch

        from skfairdp.engine.inference import in_blocks, outputs
        from skfairdp.engine.nets import as_tensor
        from skfairdp.representation.training import Encoder, encoder_of

        encoder = encoder_of(self.module_)
        if isinstance(encoder, Encoder):
            with torch.inference_mode():
                raw = in_blocks(partial(_each_by_itself, self.module_), as_tensor(X, self.module_))
        else:
            raw = outputs(encoder, X)
        box = self.bound_ * np.tanh(raw)
        box = np.clip(np.where(np.isnan(box), 0.0, box), -self.bound_, self.bound_)
        if self.codebook_ is None:
            return box
        return np.abs(box[:, :, None] - self.codebook_).argmin(axis=2)

    def _release(self, X: Any, ids: Any, sensitive_features: Any = None) -> NDArray[Any]:
        check_is_fitted(self)
        X, column = without_ids(X, self.id_column)
        if column is not None and ids is not None:
            raise ValueError("'ids' were given, and 'id_column' names a column of X; give one.")
        ids, X = column if ids is None else ids, self._entering(X, sensitive_features)
        digest = ""
        if ids is not None:
            digest = state_digest((self.module_, self.codebook_, self.bound_))
        hidden = self._hidden(X)
        with self._releasing(ids, hidden, digest) as noise:
            released: NDArray[Any] = self.randomizer_.release(hidden, noise)
        if self.codebook_ is None or self.output_ == "codes":
            return released
        return self.codebook_[np.arange(released.shape[1]), released]

    def _entering(self, X: Any, sensitive_features: Any) -> NDArray[Any]:
        """Rows without ids as the encoder takes them."""
        X = check_features(self, X, allow_nd=self.net is not None)
        return self._with_groups(X.reshape(len(X), -1), sensitive_features, self.groups_)

    def _with_groups(
        self, X: NDArray[Any], sensitive_features: Any, labels: tuple[Any, ...] | None
    ) -> NDArray[Any]:
        if not self.sees_group_:
            return X
        seen = _one_hot(sensitive_features, labels, len(X), "release")
        return np.hstack([X, seen.astype(X.dtype)])

    def _hidden_codes(self, X: Any, groups: Any) -> tuple[NDArray[np.int64], int, float]:
        """Codes of rows, of an encoder whose releases are one code each."""
        channel = self.randomizer_
        if self.column_types_ is not None or self._repeatable:
            return super()._hidden_codes(X, groups)
        assert isinstance(channel, ResponseRandomizer)
        hidden = self._hidden(self._entering(without_ids(X, self.id_column)[0], groups))
        return hidden[:, 0], channel.n_values, channel.attenuation

    def decode(self, Z: ArrayLike) -> NDArray[np.float64]:
        """Estimate class probabilities from representations that were released already.

        Parameters
        ----------
        Z : array-like, shape (n_samples, n_components)
            What `transform` returned. This is not a further release.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        import torch

        from skfairdp.engine.inference import in_blocks, probabilities
        from skfairdp.engine.nets import as_tensor

        with torch.inference_mode():
            table = as_tensor(self._embedded(Z), self.module_)
            logits = in_blocks(self.module_.predict_utility, table)  # type: ignore[arg-type]
        return probabilities(logits, "softmax")

    @completed_by(decode)
    def predict_from(self, Z: ArrayLike) -> NDArray[Any]:
        """Predict labels from representations that were released already.

        Returns
        -------
        ndarray, shape (n_samples,)
            Entries of ``classes_``.
        """
        return self.classes_[self.decode(Z).argmax(axis=1)]

    def predict_proba(
        self,
        X: ArrayLike,
        *,
        ids: ArrayLike | None = None,
        sensitive_features: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Release rows, and estimate class probabilities from the release.

        Parameters
        ----------
        ids, sensitive_features : array-like, shape (n_samples,), optional
            As in `transform`: a prediction is one release, and repeated alike.
        """
        return self.decode(self._release(X, ids, sensitive_features))

    @completed_by(predict_proba)
    def predict(
        self,
        X: ArrayLike,
        *,
        ids: ArrayLike | None = None,
        sensitive_features: ArrayLike | None = None,
    ) -> NDArray[Any]:
        """Release rows, and predict labels from the release."""
        return self.predict_from(self._release(X, ids, sensitive_features))

    @completed_by(decode)
    def reconstruct(
        self, Z: ArrayLike, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Rebuild rows from released representations and groups.

        Parameters
        ----------
        sensitive_features : array-like, shape (n_samples,), optional
            Group of each row; needed if the encoder was fitted with groups.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_features)
            Mean of each column given representation and group; a probability for
            Bernoulli and categorical columns.

        Raises
        ------
        ValueError
            Groups are missing.
        UnknownGroupError
            A group was not there at fit.
        """
        import torch

        from skfairdp.engine.inference import in_blocks
        from skfairdp.engine.nets import as_tensor
        from skfairdp.representation.objective import ColumnsLikelihood

        embedded = self._embedded(Z)
        if self.column_types_ is None:
            raise ValueError("Fair codes cannot rebuild rows: no decoder was trained for that.")
        s = np.empty((len(embedded), 0))
        if self.groups_ is not None:
            s = _one_hot(sensitive_features, self.groups_, len(embedded), "rebuild")
        with torch.inference_mode():
            tables = [as_tensor(part, self.module_) for part in (embedded, s)]
            law = ColumnsLikelihood(self.column_types_).to(tables[0].device)
            return in_blocks(
                lambda z, onehot: law.mean(self.module_.reconstruct(z, onehot)),  # type: ignore[operator]
                *tables,
            )

    def _embedded(self, Z: ArrayLike) -> NDArray[np.float64]:
        """Released representations as the decoders take them."""
        check_is_fitted(self)
        table: NDArray[np.float64] = check_array(Z, dtype=np.float64, input_name="Z")
        d = self.randomizer_.n_components
        if table.shape[1] != d:
            raise ValueError(f"Z has {table.shape[1]} columns; a representation has {d}.")
        if self.codebook_ is None or self.output_ == "embedding":
            return table
        k = self.codebook_.shape[1]
        if not np.isin(table, np.arange(k)).all():
            raise ValueError(f"Z holds numbers that are not codes; codes are 0 to {k - 1}.")
        return self.codebook_[np.arange(d), table.astype(np.int64)]

    @property
    def _n_features_out(self) -> int:
        return self.randomizer_.n_components


def _one_hot(
    sensitive_features: Any, labels: tuple[Any, ...] | None, n: int, to: str
) -> NDArray[np.float64]:
    """Indicator of the group of each row, shape (n, n_groups). `to`: what they are needed for."""
    if sensitive_features is None:
        raise ValueError(
            f"'sensitive_features' are needed to {to} rows: the encoder was fitted with them."
        )
    groups = encode_groups(sensitive_features, n_rows=n, labels=labels)
    return np.eye(len(groups.labels))[groups.codes]
