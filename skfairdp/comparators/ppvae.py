"""PPVAE: a variational autoencoder that is told the group, for the privacy funnel."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from skfairdp.comparators.base import AT_LEAST_ZERO
from skfairdp.comparators.losses import Batch, Losses, Widths
from skfairdp.comparators.networks import GaussianEncoder, beside, perceptron
from skfairdp.comparators.variational import GroupAwareEncoder, negative_log_likelihood


class _PPVAEObjective(Losses):
    def __init__(
        self, model: PPVAEEncoder, sizes: Widths, rows: Batch, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.beta, self.sizes = model.beta, sizes
        d, p, groups = sizes.n_components, sizes.n_features, sizes.n_groups
        self.encoder = GaussianEncoder(perceptron(p + groups, sizes.hidden, 2 * d, generator))
        self.decoder = perceptron(d + groups, sizes.hidden, p, generator)

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        groups = self.sizes.n_groups
        mean, log_variance = self.encoder(beside(rows.x, rows.groups, groups))
        z = GaussianEncoder.draw(mean, log_variance, generator)
        decoded = self.decoder(beside(z, rows.groups, groups))
        lost = negative_log_likelihood(rows.x, decoded, self.sizes.binary).mean()
        return GaussianEncoder.divergence(mean, log_variance).mean() + self.beta * lost


class PPVAEEncoder(GroupAwareEncoder):
    """Privacy-preserving variational autoencoder. Not private in the sense of this package.

    Keeps of a row what its group does not tell: KL(q(z | x, s) ‖ N(0, I)) −
    beta · log p(x | z, s). The KL term bounds I(X, S; Z) and with it I(S; Z): a small beta
    tells little of anything. Labels are not used.

    Parameters
    ----------
    beta : float, default=1.0
        Weight of the reconstruction; the published experiments go from 1 to 50.

    References
    ----------
    L. Nan, D. Tao, *Variational Approach for Privacy Funnel Optimization on Continuous
    Data*, Journal of Parallel and Distributed Computing 137, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.comparators import PPVAEEncoder
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, size=200)
    >>> X = rng.normal(size=(200, 3)) + s[:, None]
    >>> encoder = PPVAEEncoder(max_epochs=2, random_state=0, progress=False)
    >>> encoder.fit(X, sensitive_features=s).transform(X, sensitive_features=s).shape
    (200, 2)
    """

    beta: float = 1.0

    _parameters = {"beta": AT_LEAST_ZERO}
    _losses = _PPVAEObjective
    _needs_labels: ClassVar[bool] = False
