"""Base class of the comparators: checks, standardising, training loop, transform, pickling."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from skfairdp.base.predictors import expecting
from skfairdp.comparators.networks import Batch, Losses, Widths
from skfairdp.engine.run import Progress
from skfairdp.foundation.parameters import (
    BOOLEAN,
    COUNT,
    NONE,
    POSITIVE,
    RANDOM_STATE,
    Check,
    Number,
    WithParameters,
    check_parameters,
)
from skfairdp.foundation.scikit_learn import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from skfairdp.records.groups import encode_groups, groups_of_training
from skfairdp.records.labels import encode_labels
from skfairdp.records.rows import check_features, check_rows, refuse_other_order

AT_LEAST_ZERO: tuple[Check, ...] = (Number(low=0),)


class _ListOfWidths:
    """Parameter check: a sequence of positive integers."""

    def accepts(self, value: Any) -> bool:
        listed = isinstance(value, Sequence) and not isinstance(value, str)
        return listed and all(map(COUNT.accepts, value))

    def describe(self) -> str:
        return "a sequence of integers >= 1"


class FairEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, WithParameters):
    """Base of the comparators; a subclass builds an `Objective` and declares its needs.

    Parameters
    ----------
    n_components : int
        Components of the representation.
    hidden_sizes : sequence of int
        Hidden layers of every network.
    max_epochs : int
        Passes over the rows.
    batch_size : int
        Largest number of rows in a step.
    learning_rate : float
        Of Adam.
    random_state : int, RandomState or None
        Seeds first weights, batches and draws.
    progress : bool or None
        Show a progress bar; None shows it on a terminal.

    Attributes
    ----------
    encoder_ : torch.nn.Module
        From standardised rows to the representation.
    binary_ : ndarray of bool, shape (n_features,)
        Columns of zeros and ones, which are left as they are.
    center_, scale_ : ndarray of shape (n_features,)
        Mean and standard deviation of the other columns.
    classes_ : ndarray of shape (n_classes,)
        Labels, where the method uses any.
    groups_ : tuple
        Groups.
    n_features_in_ : int
        Columns of the rows.
    """

    n_components: int = field(default=2, kw_only=False)
    hidden_sizes: Sequence[int] = (100,)
    max_epochs: int = 30
    batch_size: int = 256
    learning_rate: float = 1e-3
    random_state: int | RandomState | None = None
    progress: bool | None = None

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    _parameters: ClassVar[Mapping[str, Iterable[Check]]] = {
        "n_components": (COUNT,),
        "hidden_sizes": (_ListOfWidths(),),
        "max_epochs": (COUNT,),
        "batch_size": (COUNT,),
        "learning_rate": (POSITIVE,),
        "random_state": RANDOM_STATE,
        "progress": (NONE, BOOLEAN),
    }
    # What is minimised: made of the encoder, sizes, rows and a generator.
    _losses: ClassVar[Callable[..., Losses]]
    _needs_labels: ClassVar[bool] = True
    _optimizer: ClassVar[Any] = torch.optim.Adam

    binary_: NDArray[np.bool_] = field(init=False)
    center_: NDArray[np.float64] = field(init=False)
    classes_: NDArray[Any] = field(init=False)
    encoder_: nn.Module = field(init=False)
    feature_names_in_: NDArray[np.object_] = field(init=False)
    groups_: tuple = field(init=False)
    n_features_in_: int = field(init=False)
    scale_: NDArray[np.float64] = field(init=False)
    seed_: int = field(init=False)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> Self:
        """Train the encoder, without any privacy.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Training rows; numbers, no missing values.
        y : array-like, shape (n_samples,)
            Labels; ignored by a method that uses none.
        sensitive_features : array-like, Series or DataFrame, shape (n_samples,) or \
(n_samples, k)
            Group of each row; at least two groups.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, the rows, the labels or the groups are invalid, or
            training diverged. The encoder is left unfitted.
        """
        self._forget()
        try:
            check_parameters(self, self._parameters)
            rows, sizes = self._read(X, y, sensitive_features)
            self._train(rows, sizes)
        except BaseException:
            self._forget()
            raise
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Encode rows.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_components)
        """
        return self._encode(X)

    def _encode(self, X: ArrayLike, sensitive_features: Any = None) -> NDArray[np.float64]:
        check_is_fitted(self)
        values = check_features(self, X)
        inputs = [torch.from_numpy(self._scaled(values))]
        if sensitive_features is not None:
            groups = encode_groups(sensitive_features, n_rows=len(values), labels=self.groups_)
            inputs.append(torch.from_numpy(groups.codes))
        with torch.no_grad():
            return self._representation(*inputs).numpy()

    def _representation(self, x: Tensor, *groups: Tensor) -> Tensor:
        return self.encoder_(x)

    def _read(self, X: Any, y: Any, sensitive_features: Any) -> tuple[Batch, Widths]:
        """Check the arguments and turn them into tensors."""
        refuse_other_order(X=X, y=y, sensitive_features=sensitive_features)
        name, n_classes = type(self).__name__, 0
        if self._needs_labels:
            values, labels = check_rows(self, X, y)
            self.classes_, labels = encode_labels(labels, None, multiclass=True)
            n_classes = len(self.classes_)
        else:
            values = check_features(self, X, reset=True)
            labels = np.zeros(len(values), dtype=np.int64)
        if sensitive_features is None:
            raise ValueError(
                f"{name} got sensitive_features=None; it needs the group of every row: "
                "fit(X, y, sensitive_features=...)."
            )
        self.groups_, codes, n_values = self._sensitive(sensitive_features, len(values))
        if min(n_values) < 2:
            raise ValueError(
                f"sensitive_features holds {min(n_values)} group; {name} needs at least two "
                "groups to learn what to hide."
            )
        self.binary_ = np.all((values == 0) | (values == 1), axis=0)
        spread = values.std(axis=0, dtype=np.float64)
        kept = self.binary_ | ~(spread > 0)
        self.center_ = np.where(self.binary_, 0.0, values.mean(axis=0, dtype=np.float64))
        self.scale_ = np.where(kept, 1.0, spread)
        x = self._scaled(values).astype(np.float32)
        rows = Batch(*map(torch.from_numpy, (x, labels, codes)))
        hidden, binary = tuple(map(int, self.hidden_sizes)), torch.from_numpy(self.binary_)
        d = int(self.n_components)
        return rows, Widths(values.shape[1], d, n_classes, n_values, hidden, binary)

    def _sensitive(
        self, sensitive_features: Any, n_rows: int
    ) -> tuple[tuple, NDArray[np.int64], tuple[int, ...]]:
        """Labels of the groups, their codes (n, 1) and their number."""
        groups = groups_of_training(sensitive_features, n_rows)
        return groups.labels, groups.codes[:, None], (len(groups.labels),)

    def _scaled(self, values: NDArray[Any]) -> NDArray[np.float64]:
        return (values - self.center_) / self.scale_

    def _train(self, rows: Batch, sizes: Widths) -> None:
        """Minimise the objective over mini-batches; keep the encoder alone."""
        self.seed_ = secrets.randbits(31)  # leaves numpy's global state alone
        if self.random_state is not None:
            self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        generator = torch.Generator().manual_seed(self.seed_)
        objective = self._losses(self, sizes, rows, generator)
        lr = float(self.learning_rate)
        ours = [w for name, w in objective.named_parameters() if not name.startswith("rival.")]
        steps = [(objective.loss, self._optimizer(ours, lr=lr))]
        if objective.rival_steps:
            rival = self._optimizer(objective.rival.parameters(), lr=lr)
            steps = [(objective.rival_loss, rival)] * objective.rival_steps + steps
        batches = -(-len(rows) // int(self.batch_size))
        total = int(self.max_epochs) * batches
        with closing(Progress(total, self.progress, type(self).__name__)) as progress:
            for _ in range(int(self.max_epochs)):
                order = torch.randperm(len(rows), generator=generator)
                # Batches of equal size but for one row: a last batch of a single row would
                # have no group to compare with.
                for index in order.tensor_split(batches):
                    batch = rows.take(index)
                    for loss, optimizer in steps:
                        optimizer.zero_grad()
                        loss(batch, generator).backward()
                        optimizer.step()
                    progress.advance()
        if not all(bool(torch.isfinite(weights).all()) for weights in objective.parameters()):
            raise ValueError(
                f"{type(self).__name__} diverged: its weights are no longer finite. Lower "
                f"learning_rate (now {self.learning_rate!r}) or the weights of its loss."
            )
        # Training in float32 is fast; in float64 a row's encoding does not depend on the rows
        # that are encoded with it but for the last digits.
        self.encoder_ = objective.encoder.requires_grad_(False).double()

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def __sklearn_is_fitted__(self) -> bool:
        return "encoder_" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._needs_labels
        tags.requires_fit = True
        return expecting(tags)

    def __getstate__(self) -> dict[str, Any]:
        """Keep parameters and fitted attributes, nothing else."""
        kept = {*self.get_params(deep=False), *self._released, "_sklearn_version"}
        return {name: part for name, part in super().__getstate__().items() if name in kept}

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name in self._released]:
            delattr(self, name)
