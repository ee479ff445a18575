"""What the comparators with a normal encoder share."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from skfairdp.comparators.base import FairEncoder
from skfairdp.comparators.networks import GaussianEncoder, beside
from skfairdp.parameters import Choice


def negative_log_likelihood(x: Tensor, decoded: Tensor, binary: Tensor) -> Tensor:
    """Loss of reconstructing rows: −log p(x | decoded).

    Columns of zeros and ones are Bernoulli with `decoded` as logits, other columns normal
    around `decoded` with variance 1 (they are standardised).

    `x` (n, d): rows. `decoded` (n, d): output of the decoder. `binary` (d,): which columns are
    Bernoulli. Result (n,): in nats, summed over the columns.
    """
    coins = functional.binary_cross_entropy_with_logits(
        decoded[:, binary], x[:, binary], reduction="none"
    )
    distances = (decoded[:, ~binary] - x[:, ~binary]).square() + math.log(2 * math.pi)
    return coins.sum(1) + 0.5 * distances.sum(1)


class VariationalEncoder(FairEncoder):
    """Base of encoders that give a normal distribution instead of a point.

    Parameters
    ----------
    output : {"sample", "mean"}
        Whether `transform` draws from the encoder's distribution, of which the objective and
        the bounds on information speak, or returns its mean. Equal calls give equal draws.

    Attributes
    ----------
    encoder_ : torch.nn.Module
        From standardised rows to means and log-variances.
    seed_ : int
        Where the draws of `transform` start.
    """

    output: str = "sample"

    _parameters = {"output": (Choice(("sample", "mean")),)}

    def _representation(self, x: Tensor, *groups: Tensor) -> Tensor:
        mean, log_variance = self.encoder_(self._inputs(x, *groups))
        if self.output == "mean":
            return self._shown(mean)
        # Every call starts from the same seed, so that equal calls give equal results.
        generator = torch.Generator().manual_seed(self.seed_)
        return self._shown(GaussianEncoder.draw(mean, log_variance, generator))

    def _inputs(self, x: Tensor, *groups: Tensor) -> Tensor:
        return x

    def _shown(self, drawn: Tensor) -> Tensor:
        return drawn


class GroupAwareEncoder(VariationalEncoder):
    """Base of encoders that see the group of each row, at transform too.

    Attributes
    ----------
    encoder_ : torch.nn.Module
        From standardised rows and groups to means and log-variances.
    """

    __metadata_request__transform: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def _inputs(self, x: Tensor, *groups: Tensor) -> Tensor:
        return beside(x, groups[0], len(self.groups_))

    def transform(
        self, X: ArrayLike, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Encode rows, given their groups.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows with the columns of ``fit``.
        sensitive_features : array-like, Series or DataFrame, shape (n_samples,) or \
(n_samples, k)
            Group of each row, one of those of ``fit``: this encoder is conditioned on it.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_components)

        Raises
        ------
        ValueError
            No groups were given, or their number is wrong.
        UnknownGroupError
            A group did not occur in ``fit``.
        """
        if sensitive_features is None and self.__sklearn_is_fitted__():
            raise ValueError(
                f"{type(self).__name__}.transform got sensitive_features=None; its encoder sees "
                "the group of each row: transform(X, sensitive_features=...). In a Pipeline, "
                "switch metadata routing on: sklearn.set_config(enable_metadata_routing=True)."
            )
        return self._encode(X, sensitive_features)

    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> Any:
        """Train, then encode the same rows.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Training rows.
        y : array-like, shape (n_samples,), optional
            Labels, where the method uses them.
        sensitive_features : array-like, Series or DataFrame, shape (n_samples,) or \
(n_samples, k)
            Group of each row.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_components)
        """
        self.fit(X, y, sensitive_features=sensitive_features)
        return self.transform(X, sensitive_features=sensitive_features)
