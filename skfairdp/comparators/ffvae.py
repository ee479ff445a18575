"""FFVAE: sensitive attributes pushed into components of their own, which are then left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from skfairdp.comparators.base import AT_LEAST_ZERO
from skfairdp.comparators.losses import Batch, Losses, Widths
from skfairdp.comparators.networks import GaussianEncoder, perceptron
from skfairdp.comparators.variational import VariationalEncoder, negative_log_likelihood
from skfairdp.fairness.groups import encode_groups


def shuffled(z: Tensor, blocks: Sequence[Tensor], generator: torch.Generator) -> Tensor:
    """Draw from q(z) Π_j q(b_j), given draws from q(z, b).

    `z` (n, d): stays as it is. `blocks` (n, w_j): the rows of each are put in an order of its
    own. Result (n, d + Σ w_j).
    """
    moved = [b.index_select(0, torch.randperm(len(b), generator=generator)) for b in blocks]
    return torch.cat([z, *moved], dim=1)


class _FFVAEObjective(Losses):
    adversarial: ClassVar[bool] = True

    def __init__(
        self, model: FFVAEEncoder, sizes: Widths, rows: Batch, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.alpha, self.gamma, self.binary = model.alpha, model.gamma, sizes.binary
        # One component tells two values apart, more values get one component each.
        self.widths = [sizes.n_components, *(n if n > 2 else 1 for n in sizes.n_values)]
        p, total = sizes.n_features, sum(self.widths)
        self.encoder = GaussianEncoder(perceptron(p, sizes.hidden, 2 * total, generator))
        self.decoder = perceptron(total, sizes.hidden, p, generator)
        self.rival = perceptron(total, sizes.hidden, 1, generator)

    def told(self, blocks: Sequence[Tensor], attributes: Tensor) -> Tensor:
        """Loss −log p(a | b), each attribute from its own block."""
        total = torch.zeros(())
        for b, a in zip(blocks, attributes.unbind(1), strict=True):
            if b.shape[1] == 1:
                total = total + functional.binary_cross_entropy_with_logits(b[:, 0], a.to(b.dtype))
            else:
                total = total + functional.cross_entropy(b, a)
        return total

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        mean, log_variance = self.encoder(rows.x)
        drawn = GaussianEncoder.draw(mean, log_variance, generator)
        _, *blocks = drawn.split(self.widths, dim=1)
        lost = negative_log_likelihood(rows.x, self.decoder(drawn), self.binary)
        # The prior covers b too: KL over all components.
        bound = (lost + GaussianEncoder.divergence(mean, log_variance)).mean()
        # The best discriminator's logit is log q(z, b) / (q(z) Π q(b_j)).
        tangled = self.rival(drawn).mean()
        return bound + self.alpha * self.told(blocks, rows.s) + self.gamma * tangled

    def rival_loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            mean, log_variance = self.encoder(rows.x)
            drawn = GaussianEncoder.draw(mean, log_variance, generator)
            z, *blocks = drawn.split(self.widths, dim=1)
            apart = shuffled(z, blocks, generator)
        return density_ratio_loss(self.rival(drawn), self.rival(apart))


def density_ratio_loss(joint: Tensor, product: Tensor) -> Tensor:
    """Logistic loss of telling draws of a joint law from draws of the product of its marginals.

    `joint`, `product` (n, 1): logits of "joint" for draws of either law. Result: at the minimum
    the logit is the logarithm of the ratio of the densities.
    """
    return 0.5 * (functional.softplus(-joint).mean() + functional.softplus(product).mean())


class FFVAEEncoder(VariationalEncoder):
    """Flexibly fair variational autoencoder. Not private.

    The latent space has components z and, for each sensitive attribute a_j, a block b_j:
    −log p(x | z, b) − alpha · Σ_j log p(a_j | b_j) + KL(q(z, b | x) ‖ N(0, I)) +
    gamma · KL(q(z, b) ‖ q(z) Π_j q(b_j)), the last by a discriminator's density ratio, for
    one attribute too. `transform` gives z alone: b, which tells the attributes, is left out.
    Labels are not used, so that two components keep what describes rows best, seldom what
    the label needs.

    Parameters
    ----------
    n_components : int, default=2
        Components of the representation z, those of b not counted.
    alpha : float, default=100.0
        Weight of the attributes' likelihood; published experiments go from 1 to 400.
    gamma : float, default=10.0
        Weight of the disentanglement of z and the b_j.
    learning_rate : float, default=0.001
        Of Adam, for both sides; they take one step each in turn.

    Attributes
    ----------
    encoder_ : torch.nn.Module
        From standardised rows to means and log-variances of z and b.
    groups_ : tuple of tuple
        Values of each sensitive attribute.

    References
    ----------
    E. Creager, D. Madras, J.-H. Jacobsen, M. Weis, K. Swersky, T. Pitassi, R. Zemel,
    *Flexibly Fair Representation Learning by Disentanglement*, ICML 2019
    (arXiv:1906.02589), section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.comparators import FFVAEEncoder
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, size=200)
    >>> X = rng.normal(size=(200, 3)) + s[:, None]
    >>> encoder = FFVAEEncoder(max_epochs=2, random_state=0, progress=False)
    >>> encoder.fit(X, sensitive_features=s).transform(X).shape
    (200, 2)
    """

    alpha: float = 100.0
    gamma: float = 10.0

    _parameters = {"alpha": AT_LEAST_ZERO, "gamma": AT_LEAST_ZERO}
    _losses = _FFVAEObjective
    _needs_labels: ClassVar[bool] = False

    def _sensitive(
        self, sensitive_features: Any, n_rows: int
    ) -> tuple[tuple, NDArray[np.int64], tuple[int, ...]]:
        """Each column an attribute of its own, not their intersections."""
        encode_groups(sensitive_features, n_rows=n_rows)  # says what is wrong with the table
        table = sensitive_features
        if not isinstance(table, (pd.Series, pd.DataFrame)):
            table = np.asarray(table)
        if table.ndim == 1:
            columns = [table]
        elif isinstance(table, pd.DataFrame):
            columns = [table.iloc[:, j] for j in range(table.shape[1])]
        else:
            columns = list(np.moveaxis(table, 1, 0))
        attributes = [encode_groups(column, n_rows=n_rows) for column in columns]
        codes = np.stack([attribute.codes for attribute in attributes], axis=1)
        labels = tuple(attribute.labels for attribute in attributes)
        return labels, codes, tuple(len(values) for values in labels)

    def _shown(self, drawn: Tensor) -> Tensor:
        return drawn[:, : self.n_components]
