"""PPVAE, VFAE and CFB: encoders that give a normal distribution instead of a point."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from skfairdp.comparators.base import AT_LEAST_ZERO, FairEncoder
from skfairdp.comparators.networks import (
    Batch,
    GaussianEncoder,
    Losses,
    beside,
    negative_log_likelihood,
)
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import COUNT, POSITIVE, Choice


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
        From standardised rows (and groups, for an encoder that sees them) to means and
        log-variances.
    seed_ : int
        Where the draws of `transform` start.
    """

    output: str = "sample"

    _parameters = {"output": (Choice(("sample", "mean")),)}

    def _representation(self, x: Tensor, *groups: Tensor) -> Tensor:
        seen = beside(x, groups[0], len(self.groups_)) if groups else x
        mean, log_variance = self.encoder_(seen)
        if self.output == "mean":
            return mean[:, : self.n_components]
        # Every call starts from the same seed, so that equal calls give equal results.
        generator = torch.Generator().manual_seed(self.seed_)
        return GaussianEncoder.draw(mean, log_variance, generator)[:, : self.n_components]


class GroupAwareEncoder(VariationalEncoder):
    """Base of encoders that see the group of each row, at transform too."""

    __metadata_request__transform: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def transform(
        self, X: ArrayLike, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Encode rows, given their groups.

        Parameters
        ----------
        sensitive_features : array-like, Series or DataFrame, shape (n_samples,) or \
(n_samples, k)
            Group of each row, one of those of ``fit``: this encoder is conditioned on it.

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

    @completed_by(transform)
    def fit_transform(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> Any:
        """Train, then encode the same rows."""
        self.fit(X, y, sensitive_features=sensitive_features)
        return self.transform(X, sensitive_features=sensitive_features)


class _PPVAELosses(Losses):
    def _build(self, rows: Batch) -> None:
        d, p, groups = self.sizes.n_components, self.sizes.n_features, self.sizes.n_groups
        self.encoder = GaussianEncoder(self._net(p + groups, 2 * d))
        self.decoder = self._net(d + groups, p)

    def terms(self, rows: Batch, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Draws, and the means of −log p(x | z, s) and of KL(q(z | x, s) ‖ N(0, I))."""
        groups = self.sizes.n_groups
        mean, log_variance = self.encoder(beside(rows.x, rows.groups, groups))
        z = GaussianEncoder.draw(mean, log_variance, generator)
        decoded = self.decoder(beside(z, rows.groups, groups))
        lost = negative_log_likelihood(rows.x, decoded, self.sizes.binary).mean()
        return z, lost, GaussianEncoder.divergence(mean, log_variance).mean()

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        _, lost, divergence = self.terms(rows, generator)
        return divergence + self.model.beta * lost


class PPVAEEncoder(GroupAwareEncoder):
    """Privacy-preserving variational autoencoder. Not private in the sense of this package.

    Keeps the part of a row that its group does not predict: KL(q(z | x, s) ‖ N(0, I)) −
    beta · log p(x | z, s). The KL term bounds I(X, S; Z) and with it I(S; Z): a small beta
    carries little information. Labels are not used.

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
    >>> from skfairdp.comparators import PPVAEEncoder
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> rows = make_biased_gaussians(n_samples=200, random_state=0)
    >>> encoder = PPVAEEncoder(max_epochs=2, random_state=0, progress=False)
    >>> encoder.fit_transform(rows.data, sensitive_features=rows.sensitive_features).shape
    (200, 2)
    """

    beta: float = 1.0

    _parameters = {"beta": AT_LEAST_ZERO}
    _losses = _PPVAELosses
    _needs_labels: ClassVar[bool] = False


def mean_discrepancy(
    model: Any, z: Tensor, groups: Tensor, n_groups: int, generator: torch.Generator
) -> Tensor:
    """Squared distance of the groups' mean random features: an estimate of MMD².

    The features √(2/D) cos(√(2/γ) z W + b), W standard normal and b uniform on [0, 2π), make
    exp(−‖z − z'‖²/γ) in expectation. One W and one b serve all groups: means of different
    features could not be compared. Two groups are compared with each other, more groups each
    with the whole batch; a group without rows in the batch adds nothing.
    """
    n_features, bandwidth = int(model.n_random_features), float(model.bandwidth)
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


class _VFAELosses(_PPVAELosses):
    def _build(self, rows: Batch) -> None:
        super()._build(rows)
        self.classifier = self._net(self.sizes.n_components, self.sizes.n_classes)

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        z, lost, divergence = self.terms(rows, generator)
        guessed = functional.cross_entropy(self.classifier(z), rows.y)
        gap = mean_discrepancy(self.model, z, rows.groups, self.sizes.n_groups, generator)
        return lost + divergence + self.model.alpha * guessed + self.model.beta * gap


class VFAEEncoder(GroupAwareEncoder):
    """Variational fair autoencoder. Not private.

    −log p(x | z, s) + KL(q(z | x, s) ‖ N(0, I)) + alpha · CE(y | z) + beta · MMD²: a
    variational autoencoder that receives the group, a classifier that keeps the label in z,
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

    References
    ----------
    C. Louizos, K. Swersky, Y. Li, M. Welling, R. Zemel, *The Variational Fair Autoencoder*,
    ICLR 2016 (arXiv:1511.00830), section 2.

    Examples
    --------
    >>> from skfairdp.comparators import VFAEEncoder
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> rows = make_biased_gaussians(n_samples=200, random_state=0)
    >>> encoder, s = VFAEEncoder(max_epochs=2, progress=False), rows.sensitive_features
    >>> encoder.fit_transform(rows.data, rows.target, sensitive_features=s).shape
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
    _losses = _VFAELosses


class _SharedVariance(nn.Module):
    """Means from a network, one learnt log-variance for all rows and components."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.log_variance = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: Tensor) -> Tensor:
        mean = self.network(inputs)
        return torch.cat([mean, self.log_variance.expand_as(mean)], dim=1)


class _CFBLosses(Losses):
    def _build(self, rows: Batch) -> None:
        d, groups = self.sizes.n_components, self.sizes.n_groups
        self.encoder = GaussianEncoder(_SharedVariance(self._net(self.sizes.n_features, d)))
        self.decoder = self._net(d + groups, self.sizes.n_classes)

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        mean, log_variance = self.encoder(rows.x)
        z = GaussianEncoder.draw(mean, log_variance, generator)
        guessed = self.decoder(beside(z, rows.groups, self.sizes.n_groups))
        complexity = GaussianEncoder.divergence(mean, log_variance).mean()
        return complexity + self.model.beta * functional.cross_entropy(guessed, rows.y)


class CFBEncoder(VariationalEncoder):
    """Conditional fairness bottleneck. Not private.

    The representation reveals as little as possible about the row, but what the label needs
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
    >>> from skfairdp.comparators import CFBEncoder
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> rows = make_biased_gaussians(n_samples=200, random_state=0)
    >>> encoder = CFBEncoder(max_epochs=2, random_state=0, progress=False)
    >>> _ = encoder.fit(rows.data, rows.target, sensitive_features=rows.sensitive_features)
    >>> encoder.transform(rows.data).shape
    (200, 2)
    """

    beta: float = 10.0

    _parameters = {"beta": AT_LEAST_ZERO}
    _losses = _CFBLosses
