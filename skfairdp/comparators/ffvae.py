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
from skfairdp.comparators.networks import Batch, GaussianEncoder, Losses, negative_log_likelihood
from skfairdp.comparators.variational import VariationalEncoder
from skfairdp.records.groups import encode_groups, groups_of_training


def shuffled(z: Tensor, blocks: Sequence[Tensor], generator: torch.Generator) -> Tensor:
    """Draw from q(z) Π_j q(b_j), given draws from q(z, b): each block in an order of its own."""
    moved = [b.index_select(0, torch.randperm(len(b), generator=generator)) for b in blocks]
    return torch.cat([z, *moved], dim=1)


def density_ratio_loss(joint: Tensor, product: Tensor) -> Tensor:
    """Logistic loss of telling a joint law from the product of its marginals.

    At the minimum the logit of "joint" is the logarithm of the ratio of the densities.
    """
    return 0.5 * (functional.softplus(-joint).mean() + functional.softplus(product).mean())


class _FFVAELosses(Losses):
    rival_steps = 1

    def _build(self, rows: Batch) -> None:
        sizes, p = self.sizes, self.sizes.n_features
        # One component for two values, one component each for more.
        self.widths = [sizes.n_components, *(n if n > 2 else 1 for n in sizes.n_values)]
        total = sum(self.widths)
        self.encoder = GaussianEncoder(self._net(p, 2 * total))
        self.decoder = self._net(total, p)
        self.rival = self._net(total, 1)

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
        lost = negative_log_likelihood(rows.x, self.decoder(drawn), self.sizes.binary)
        # The prior covers b too: KL over all components.
        bound = (lost + GaussianEncoder.divergence(mean, log_variance)).mean()
        # The best discriminator's logit is log q(z, b) / (q(z) Π q(b_j)).
        tangled = self.rival(drawn).mean()
        told = self.model.alpha * self.told(blocks, rows.s)
        return bound + told + self.model.gamma * tangled

    def rival_loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            mean, log_variance = self.encoder(rows.x)
            drawn = GaussianEncoder.draw(mean, log_variance, generator)
            z, *blocks = drawn.split(self.widths, dim=1)
            apart = shuffled(z, blocks, generator)
        return density_ratio_loss(self.rival(drawn), self.rival(apart))


class FFVAEEncoder(VariationalEncoder):
    """Flexibly fair variational autoencoder. Not private.

    The latent space has components z and, for each sensitive attribute a_j, a block b_j:
    −log p(x | z, b) − alpha · Σ_j log p(a_j | b_j) + KL(q(z, b | x) ‖ N(0, I)) +
    gamma · KL(q(z, b) ‖ q(z) Π_j q(b_j)), the last by a discriminator's density ratio, for
    one attribute too. `transform` gives z alone: b, which reveals the attributes, is left out.
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
    >>> from skfairdp.comparators import FFVAEEncoder
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> rows = make_biased_gaussians(n_samples=200, random_state=0)
    >>> encoder = FFVAEEncoder(max_epochs=2, random_state=0, progress=False)
    >>> _ = encoder.fit(rows.data, sensitive_features=rows.sensitive_features)
    >>> encoder.transform(rows.data).shape
    (200, 2)
    """

    alpha: float = 100.0
    gamma: float = 10.0

    _parameters = {"alpha": AT_LEAST_ZERO, "gamma": AT_LEAST_ZERO}
    _losses = _FFVAELosses
    _needs_labels: ClassVar[bool] = False

    def _sensitive(
        self, sensitive_features: Any, n_rows: int
    ) -> tuple[tuple, NDArray[np.int64], tuple[int, ...]]:
        """Each column an attribute of its own, not their intersections."""
        encode_groups(sensitive_features, n_rows=n_rows)  # says what is wrong with the table
        named = isinstance(sensitive_features, pd.Series | pd.DataFrame)
        table = pd.DataFrame(sensitive_features if named else np.asarray(sensitive_features))
        attributes = [groups_of_training(column, n_rows) for _, column in table.items()]
        codes = np.stack([attribute.codes for attribute in attributes], axis=1)
        labels = tuple(attribute.labels for attribute in attributes)
        return labels, codes, tuple(map(len, labels))
