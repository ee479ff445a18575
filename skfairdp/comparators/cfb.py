"""CFB: the conditional fairness bottleneck."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from skfairdp.comparators.base import AT_LEAST_ZERO
from skfairdp.comparators.losses import Batch, Losses, Widths
from skfairdp.comparators.networks import GaussianEncoder, beside, perceptron
from skfairdp.comparators.variational import VariationalEncoder


class _SharedVariance(nn.Module):
    """Means from a network, one learnt log-variance for all rows and components."""

    def __init__(self, network: nn.Module, n_components: int) -> None:
        super().__init__()
        self.network = network
        self.n_components = n_components
        self.log_variance = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        mean = self.network(inputs)
        return torch.cat([mean, self.log_variance.expand_as(mean)], dim=1)


class _CFBObjective(Losses):
    def __init__(
        self, model: CFBEncoder, sizes: Widths, rows: Batch, generator: torch.Generator
    ) -> None:
        super().__init__()
        d = sizes.n_components
        self.beta, self.n_groups = model.beta, sizes.n_groups
        means = perceptron(sizes.n_features, sizes.hidden, d, generator)
        self.encoder = GaussianEncoder(_SharedVariance(means, d))
        self.decoder = perceptron(d + sizes.n_groups, sizes.hidden, sizes.n_classes, generator)

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        mean, log_variance = self.encoder(rows.x)
        z = GaussianEncoder.draw(mean, log_variance, generator)
        guessed = self.decoder(beside(z, rows.groups, self.n_groups))
        complexity = GaussianEncoder.divergence(mean, log_variance).mean()
        return complexity + self.beta * functional.cross_entropy(guessed, rows.y)


class CFBEncoder(VariationalEncoder):
    """Conditional fairness bottleneck. Not private.

    The representation tells as little as possible about the row, but what the label needs
    that the group does not say already: min I(X; Z) − beta · I(Y; Z | S), bounded by
    KL(N(f(x), σ²I) ‖ N(0, I)) + beta · CE(y | z, s). The encoder sees x alone, the decoder
    z and the group; σ² is learnt, one for all rows.

    Parameters
    ----------
    beta : float, default=10.0
        Weight of the label against the information about the row; the paper goes from 1 to 50.

    References
    ----------
    B. Rodríguez-Gálvez, R. Thobaben, M. Skoglund, *A Variational Approach to Privacy and
    Fairness*, 2020 (arXiv:2006.06332), sections III and IV.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.comparators import CFBEncoder
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, size=200)
    >>> X = rng.normal(size=(200, 3)) + s[:, None]
    >>> y = (X[:, 0] + rng.normal(size=200) > 0.5).astype(int)
    >>> encoder = CFBEncoder(max_epochs=2, random_state=0, progress=False)
    >>> encoder.fit(X, y, sensitive_features=s).transform(X).shape
    (200, 2)
    """

    beta: float = 10.0

    _parameters = {"beta": AT_LEAST_ZERO}
    _losses = _CFBObjective
