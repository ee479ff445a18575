"""LAFTR: an adversary with the group-normalised L1 loss of the notion that is asked for."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from skfairdp.comparators.base import AT_LEAST_ZERO, FairEncoder
from skfairdp.comparators.losses import Batch, Losses, Widths
from skfairdp.comparators.networks import beside, perceptron
from skfairdp.parameters import COUNT, Choice


def group_normalised(errors: Tensor, groups: Tensor, strata: Tensor, n_groups: int) -> Tensor:
    """Sum over strata and groups of the mean error of the rows of stratum and group.

    `errors` (n,): error of each row. `groups` (n,): its group. `strata` (n,): its stratum; -1 for
    a row that the notion leaves out. Result: a cell without rows adds nothing.
    """
    kept = strata >= 0
    cells = (strata * n_groups + groups)[kept]
    # Every row weighs 1 / (rows of its cell): the sum is a sum of the cells' means.
    return (errors[kept] / torch.bincount(cells)[cells]).sum()


class _LAFTRObjective(Losses):
    adversarial: ClassVar[bool] = True

    def __init__(
        self, model: LAFTREncoder, sizes: Widths, rows: Batch, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.sizes, self.notion = sizes, model.notion
        self.rival_steps = int(model.adversary_steps)
        self.adversary_loss = model.adversary_loss
        self.alpha, self.beta, self.gamma = model.alpha, model.beta, model.gamma
        d, groups, classes = sizes.n_components, sizes.n_groups, sizes.n_classes
        seen = 0 if self.notion == "demographic_parity" else classes
        self.encoder = perceptron(sizes.n_features, sizes.hidden, d, generator)
        self.classifier = perceptron(d, sizes.hidden, classes, generator)
        self.decoder = perceptron(d + groups, sizes.hidden, sizes.n_features, generator)
        self.rival = perceptron(d + seen, sizes.hidden, groups, generator)

    def guesses(self, z: Tensor, rows: Batch) -> tuple[Tensor, Tensor]:
        """Log-probability that the adversary gives the true group, and the rows' strata."""
        strata = torch.zeros_like(rows.y)
        if self.notion != "demographic_parity":
            z = beside(z, rows.y, self.sizes.n_classes)
            # For equal opportunity the second class is stratum 0, other rows are left out.
            strata = rows.y if self.notion == "equalized_odds" else rows.y - 1
        logits = self.rival(z)
        return -functional.cross_entropy(logits, rows.groups, reduction="none"), strata

    def gain(self, z: Tensor, rows: Batch) -> Tensor:
        """L_adv: how much better than blind the adversary guesses, each cell counting alike."""
        right, strata = self.guesses(z, rows)
        errors = 1 - right.exp()  # for two groups |h - s|
        lost = group_normalised(errors, rows.groups, strata, self.sizes.n_groups)
        return int(strata.max()) + 1 - lost

    def loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        z = self.encoder(rows.x)
        total = self.alpha * functional.cross_entropy(self.classifier(z), rows.y)
        if self.beta:
            decoded = self.decoder(beside(z, rows.groups, self.sizes.n_groups))
            total = total + self.beta * functional.mse_loss(decoded, rows.x)
        return total + self.gamma * self.gain(z, rows)

    def rival_loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            z = self.encoder(rows.x)
        if self.adversary_loss == "l1":
            return -self.gain(z, rows)
        right, strata = self.guesses(z, rows)
        return group_normalised(-right, rows.groups, strata, self.sizes.n_groups)


class LAFTREncoder(FairEncoder):
    """Adversarially fair and transferable representation. Not private.

    An encoder z = f(x), a classifier of y and, if asked for, a decoder of x from (z, s) are
    trained against an adversary that guesses the group s:
    min over f, g, k and max over h of alpha · CE(y, g(z)) + beta · MSE(x, k(z, s)) +
    gamma · L_adv. L_adv is the adversary's group-normalised gain in the strata of `notion`:
    the sum over strata of 1 − Σ_s mean over the rows of stratum and group s of the L1 error,
    which is ``|h − s|`` for two groups and 1 − h_s for more.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the classifier's cross-entropy.
    beta : float, default=0.0
        Weight of the reconstruction, the mean squared error over columns.
    gamma : float, default=1.0
        Weight of the adversary's gain.
    notion : {"demographic_parity", "equalized_odds", "equal_opportunity"}, \
default="demographic_parity"
        Strata of the adversary's loss: all rows; each class; the second of two classes. For
        the latter two the adversary sees the label as well.
    adversary_loss : {"cross_entropy", "l1"}, default="cross_entropy"
        What the adversary itself minimises, group-normalised; the encoder always minimises
        the L1 gain. The paper has "l1" for both; an adversary that calls all people the same
        group is stationary there, and training can stop for good with the group still in z.
    adversary_steps : int, default=3
        Steps of the adversary for each step of the encoder. The published code takes one,
        after which the encoder still outruns its adversary with two components.
    learning_rate : float, default=0.001
        Of Adam, for both sides; they take one step each in turn.

    References
    ----------
    D. Madras, E. Creager, T. Pitassi, R. Zemel, *Learning Adversarially Fair and
    Transferable Representations*, ICML 2018 (arXiv:1802.06309), sections 3 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.comparators import LAFTREncoder
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, size=200)
    >>> X = rng.normal(size=(200, 3)) + s[:, None]
    >>> y = (X[:, 0] + rng.normal(size=200) > 0.5).astype(int)
    >>> encoder = LAFTREncoder(max_epochs=2, random_state=0, progress=False)
    >>> encoder.fit(X, y, sensitive_features=s).transform(X).shape
    (200, 2)
    """

    alpha: float = 1.0
    beta: float = 0.0
    gamma: float = 1.0
    notion: str = "demographic_parity"
    adversary_loss: str = "cross_entropy"
    adversary_steps: int = 3

    _parameters = {
        "alpha": AT_LEAST_ZERO,
        "beta": AT_LEAST_ZERO,
        "gamma": AT_LEAST_ZERO,
        "notion": (Choice(("demographic_parity", "equalized_odds", "equal_opportunity")),),
        "adversary_loss": (Choice(("cross_entropy", "l1")),),
        "adversary_steps": (COUNT,),
    }
    _losses = _LAFTRObjective

    def _objective(self, sizes: Widths, rows: Batch, generator: torch.Generator) -> Losses:
        if self.notion == "equal_opportunity" and sizes.n_classes != 2:
            raise ValueError(
                f"notion='equal_opportunity' speaks of two classes; y holds {sizes.n_classes}. "
                "Use 'equalized_odds' or 'demographic_parity'."
            )
        return super()._objective(sizes, rows, generator)
