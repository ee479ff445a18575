"""VFAE: a variational autoencoder whose groups' representations have the same mean features."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from skfairdp.comparators.base import AT_LEAST_ZERO
from skfairdp.comparators.losses import Batch, Losses, Widths
from skfairdp.comparators.networks import GaussianEncoder, beside, perceptron
from skfairdp.comparators.variational import GroupAwareEncoder, negative_log_likelihood
from skfairdp.parameters import COUNT, POSITIVE


def mean_discrepancy(
    z: Tensor,
    groups: Tensor,
    n_groups: int,
    *,
    bandwidth: float,
    n_features: int,
    generator: torch.Generator,
) -> Tensor:
    """Squared distance of the groups' mean random features: an estimate of MMD².

    The features √(2/D) cos(√(2/γ) z W + b), W standard normal and b uniform on [0, 2π), make
    exp(−‖z − z'‖²/γ) in expectation. One W and one b serve all groups: means of different
    features could not be compared. Two groups are compared with each other, more groups each
    with the whole batch; a group without rows in the batch adds nothing.

    `z` (n, d): representations. `groups` (n,): their groups. `bandwidth`: γ > 0, in squared units
    of z.
    """
    W = torch.randn((z.shape[1], n_features), generator=generator)
    b = 2 * math.pi * torch.rand(n_features, generator=generator)
    features = math.sqrt(2 / n_features) * torch.cos(math.sqrt(2 / bandwidth) * z @ W + b)
    members = functional.one_hot(groups, n_groups).to(features.dtype)
    counts = members.sum(0)
    present = counts > 0
    means = members.T @ features / counts.clamp(min=1)[:, None]
    if n_groups == 2:
        return (means[0] - means[1]).square().sum() * present.all()
    return ((means - features.mean(0)).square().sum(1) * present).sum()


class _VFAEObjective(Losses):
    def __init__(
        self, model: VFAEEncoder, sizes: Widths, rows: Batch, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.sizes = sizes
        self.alpha, self.beta = model.alpha, model.beta
        self.bandwidth, self.n_random = float(model.bandwidth), int(model.n_random_features)
        d, p, groups = sizes.n_components, sizes.n_features, sizes.n_groups
        self.encoder = GaussianEncoder(perceptron(p + groups, sizes.hidden, 2 * d, generator))
        self.decoder = perceptron(d + groups, sizes.hidden, p, generator)
        self.classifier = perceptron(d, sizes.hidden, sizes.n_classes, generator)

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        groups = self.sizes.n_groups
        mean, log_variance = self.encoder(beside(rows.x, rows.groups, groups))
        z = GaussianEncoder.draw(mean, log_variance, generator)
        decoded = self.decoder(beside(z, rows.groups, groups))
        lost = negative_log_likelihood(rows.x, decoded, self.sizes.binary)
        bound = (lost + GaussianEncoder.divergence(mean, log_variance)).mean()
        guessed = functional.cross_entropy(self.classifier(z), rows.y)
        gap = mean_discrepancy(
            z,
            rows.groups,
            groups,
            bandwidth=self.bandwidth,
            n_features=self.n_random,
            generator=generator,
        )
        return bound + self.alpha * guessed + self.beta * gap


class VFAEEncoder(GroupAwareEncoder):
    """Variational fair autoencoder. Not private.

    −log p(x | z, s) + KL(q(z | x, s) ‖ N(0, I)) + alpha · CE(y | z) + beta · MMD²: a
    variational autoencoder that is told the group, a classifier that keeps the label in z,
    and a penalty on the maximum mean discrepancy between the groups' representations, by
    random Fourier features. One layer of latent variables stands for the paper's two.

    Parameters
    ----------
    alpha : float, default=10.0
        Weight of the classifier's cross-entropy; 0 is the unsupervised method.
    beta : float, default=100.0
        Weight of the discrepancy; published experiments go from 1 to 1000.
    bandwidth : float, default=1.0
        γ of the kernel exp(−‖z − z'‖²/γ).
    n_random_features : int, default=500
        Number of random features, drawn afresh in every step.

    Attributes
    ----------
    encoder_ : torch.nn.Module
        From standardised rows and groups to means and log-variances.

    References
    ----------
    C. Louizos, K. Swersky, Y. Li, M. Welling, R. Zemel, *The Variational Fair Autoencoder*,
    ICLR 2016 (arXiv:1511.00830), section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.comparators import VFAEEncoder
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, size=200)
    >>> X = rng.normal(size=(200, 3)) + s[:, None]
    >>> y = (X[:, 0] + rng.normal(size=200) > 0.5).astype(int)
    >>> encoder = VFAEEncoder(max_epochs=2, random_state=0, progress=False)
    >>> encoder.fit(X, y, sensitive_features=s).transform(X, sensitive_features=s).shape
    (200, 2)
    """

    alpha: float = 10.0
    beta: float = 100.0
    bandwidth: float = 1.0
    n_random_features: int = 500

    _parameters = {
        "alpha": AT_LEAST_ZERO,
        "beta": AT_LEAST_ZERO,
        "bandwidth": (POSITIVE,),
        "n_random_features": (COUNT,),
    }
    _losses = _VFAEObjective
