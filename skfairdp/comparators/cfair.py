"""CFAIR: balanced errors, and one adversary for each class."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from skfairdp.comparators.base import AT_LEAST_ZERO, FairEncoder
from skfairdp.comparators.losses import Batch, Losses, Widths
from skfairdp.comparators.networks import ReversedGradient, perceptron
from skfairdp.parameters import BOOLEAN


def balancing_weights(codes: Tensor, n_values: int, given: Tensor, n_given: int) -> Tensor:
    """Weights 1 / P(code | stratum) that turn an error rate into a balanced one.

    `codes` (n,): what is guessed. `given` (n,): stratum of each row. Result (n_given, n_values):
    0 for a value that never occurs in its stratum.
    """
    counts = torch.bincount(given * n_values + codes, minlength=n_given * n_values)
    counts = counts.reshape(n_given, n_values).to(torch.float32)
    weights = counts.sum(1, keepdim=True) / counts
    return torch.where(counts > 0, weights, 0.0)


class _CFAIRObjective(Losses):
    def __init__(
        self, model: CFAIREncoder, sizes: Widths, rows: Batch, generator: torch.Generator
    ) -> None:
        super().__init__()
        d, groups, classes = sizes.n_components, sizes.n_groups, sizes.n_classes
        self.mu, self.n_groups, self.n_classes = model.mu, groups, classes
        self.encoder = perceptron(sizes.n_features, sizes.hidden, d, generator)
        self.classifier = perceptron(d, sizes.hidden, classes, generator)
        self.adversaries = nn.ModuleList(
            perceptron(d, sizes.hidden, groups, generator) for _ in range(classes)
        )
        everything = torch.zeros_like(rows.y)
        of_class = balancing_weights(rows.y, classes, everything, 1)[0] / classes
        self.of_class = of_class if model.balanced else torch.ones(classes)
        self.of_group = balancing_weights(rows.groups, groups, rows.y, classes) / groups

    def leak(self, z: Tensor, rows: Batch) -> Tensor:
        """Sum over classes of the adversaries' balanced losses; a class without rows adds 0."""
        total = torch.zeros(())
        for label, adversary in enumerate(self.adversaries):
            members = (rows.y == label).nonzero()[:, 0]
            if len(members):
                guessed = adversary(z.index_select(0, members))
                groups = rows.groups.index_select(0, members)
                losses = functional.cross_entropy(guessed, groups, reduction="none")
                total = total + (self.of_group[label][groups] * losses).mean()
        return total

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        z = self.encoder(rows.x)
        losses = functional.cross_entropy(self.classifier(z), rows.y, reduction="none")
        target = (self.of_class[rows.y] * losses).mean()
        # Adversaries go down the gradient, the encoder goes up mu times.
        return target + self.leak(ReversedGradient.apply(z, self.mu), rows)


class CFAIREncoder(FairEncoder):
    """Conditionally fair representation. Not private.

    An encoder and a classifier minimise the balanced error of y while one adversary for each
    class, behind a reversed gradient, minimises its balanced error of the group among the
    rows of that class: min BER(y) − mu · Σ_y BER(s | y). Cross-entropy stands for the error;
    weights 1 / P(y) and 1 / P(s | y) balance it.

    Parameters
    ----------
    mu : float, default=10.0
        Weight of the adversaries, the paper's for Adult.
    balanced : bool, default=True
        Whether the error of y is balanced; False is the paper's CFAIR-EO.
    learning_rate : float, default=0.1
        Of Adadelta, the paper's optimiser. Its rate of 1.0 with `mu` = 10 and two components
        drives z out of bounds, and the label with it.

    References
    ----------
    H. Zhao, A. Coston, T. Adel, G. J. Gordon, *Conditional Learning of Fair
    Representations*, ICLR 2020 (arXiv:1910.07162), section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.comparators import CFAIREncoder
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, size=200)
    >>> X = rng.normal(size=(200, 3)) + s[:, None]
    >>> y = (X[:, 0] + rng.normal(size=200) > 0.5).astype(int)
    >>> encoder = CFAIREncoder(max_epochs=2, random_state=0, progress=False)
    >>> encoder.fit(X, y, sensitive_features=s).transform(X).shape
    (200, 2)
    """

    mu: float = 10.0
    balanced: bool = True
    learning_rate: float = 0.1

    _parameters = {"mu": AT_LEAST_ZERO, "balanced": (BOOLEAN,)}
    _losses = _CFAIRObjective
    _optimizer: ClassVar[Any] = torch.optim.Adadelta
