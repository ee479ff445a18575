"""LAFTR and CFAIR: encoders that learn against adversaries who guess the group."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from skfairdp.comparators.base import AT_LEAST_ZERO, FairEncoder
from skfairdp.comparators.networks import Batch, Losses, ReversedGradient, beside
from skfairdp.foundation.parameters import BOOLEAN, COUNT, Choice


def group_normalised(errors: Tensor, groups: Tensor, strata: Tensor, n_groups: int) -> Tensor:
    """Sum over strata and groups of the mean error in each cell; stratum -1 is left out."""
    kept = strata >= 0
    cells = (strata * n_groups + groups)[kept]
    # Every row weighs 1 / (rows of its cell): the sum is a sum of the cells' means.
    return (errors[kept] / torch.bincount(cells)[cells]).sum()


class _LAFTRLosses(Losses):
    def _build(self, rows: Batch) -> None:
        d, groups, classes = self.sizes.n_components, self.sizes.n_groups, self.sizes.n_classes
        if self.model.notion == "equal_opportunity" and classes != 2:
            raise ValueError(
                f"notion='equal_opportunity' speaks of two classes; y holds {classes}. "
                "Use 'equalized_odds' or 'demographic_parity'."
            )
        self.rival_steps = int(self.model.adversary_steps)
        self.sees_label = self.model.notion != "demographic_parity"
        self.encoder = self._net(self.sizes.n_features, d)
        self.classifier = self._net(d, classes)
        self.decoder = self._net(d + groups, self.sizes.n_features)
        self.rival = self._net(d + classes * self.sees_label, groups)

    def guesses(self, z: Tensor, rows: Batch) -> tuple[Tensor, Tensor]:
        """Log-probability that the adversary gives the true group, and the rows' strata."""
        strata = torch.zeros_like(rows.y)
        if self.sees_label:
            z = beside(z, rows.y, self.sizes.n_classes)
            # For equal opportunity the second class is stratum 0, other rows are left out.
            strata = rows.y if self.model.notion == "equalized_odds" else rows.y - 1
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
        total = self.model.alpha * functional.cross_entropy(self.classifier(z), rows.y)
        if self.model.beta:
            decoded = self.decoder(beside(z, rows.groups, self.sizes.n_groups))
            total = total + self.model.beta * functional.mse_loss(decoded, rows.x)
        return total + self.model.gamma * self.gain(z, rows)

    def rival_loss(self, rows: Batch, generator: torch.Generator) -> Tensor:
        with torch.no_grad():
            z = self.encoder(rows.x)
        if self.model.adversary_loss == "l1":
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
        Loss of the adversary, group-normalised; the encoder always minimises
        the L1 gain. The paper has "l1" for both; an adversary that calls all people the same
        group is stationary there, and training can stop for good with the group still in z.
    adversary_steps : int, default=3
        Steps of the adversary for each step of the encoder. The published code takes one,
        after which the encoder still outruns its adversary with two components.

    References
    ----------
    D. Madras, E. Creager, T. Pitassi, R. Zemel, *Learning Adversarially Fair and
    Transferable Representations*, ICML 2018 (arXiv:1802.06309), sections 3 and 4.

    Examples
    --------
    >>> from skfairdp.comparators import LAFTREncoder
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> rows = make_biased_gaussians(n_samples=200, random_state=0)
    >>> encoder = LAFTREncoder(max_epochs=2, random_state=0, progress=False)
    >>> _ = encoder.fit(rows.data, rows.target, sensitive_features=rows.sensitive_features)
    >>> encoder.transform(rows.data).shape
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
    _losses = _LAFTRLosses


def balancing_weights(codes: Tensor, n_values: int, given: Tensor, n_given: int) -> Tensor:
    """Weights 1 / P(code | stratum) that turn an error rate into a balanced one.

    Shape (n_given, n_values); 0 for a value that never occurs in its stratum.
    """
    counts = torch.bincount(given * n_values + codes, minlength=n_given * n_values)
    counts = counts.reshape(n_given, n_values).to(torch.float32)
    weights = counts.sum(1, keepdim=True) / counts
    return torch.where(counts > 0, weights, 0.0)


class _CFAIRLosses(Losses):
    def _build(self, rows: Batch) -> None:
        d, groups, classes = self.sizes.n_components, self.sizes.n_groups, self.sizes.n_classes
        self.encoder = self._net(self.sizes.n_features, d)
        self.classifier = self._net(d, classes)
        self.adversaries = nn.ModuleList(self._net(d, groups) for _ in range(classes))
        everything = torch.zeros_like(rows.y)
        of_class = balancing_weights(rows.y, classes, everything, 1)[0] / classes
        self.of_class = of_class if self.model.balanced else torch.ones(classes)
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
        return target + self.leak(ReversedGradient.apply(z, self.model.mu), rows)


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
    >>> from skfairdp.comparators import CFAIREncoder
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> rows = make_biased_gaussians(n_samples=200, random_state=0)
    >>> encoder = CFAIREncoder(max_epochs=2, random_state=0, progress=False)
    >>> _ = encoder.fit(rows.data, rows.target, sensitive_features=rows.sensitive_features)
    >>> encoder.transform(rows.data).shape
    (200, 2)
    """

    mu: float = 10.0
    balanced: bool = True
    learning_rate: float = 0.1

    _parameters = {"mu": AT_LEAST_ZERO, "balanced": (BOOLEAN,)}
    _losses = _CFAIRLosses
    _optimizer: ClassVar[Any] = torch.optim.Adadelta
