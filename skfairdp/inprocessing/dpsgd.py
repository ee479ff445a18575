"""Differentially private stochastic gradient descent."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from os import PathLike
from typing import Any

from numpy.random import RandomState

from skfairdp.assumptions import PARITY_ROWS
from skfairdp.engine.nets import PreparedNet
from skfairdp.fairness.groups import Groups
from skfairdp.inprocessing.gradient import NONE, GradientClassifier, Run
from skfairdp.inprocessing.public_parity import PublicParity
from skfairdp.parameters import Kind
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes


class DPSGDClassifier(GradientClassifier):
    """Neural network trained by differentially private gradient descent.

    Each step draws every record with the same probability, clips every drawn
    record's gradient to an L2 norm, sums them, adds Gaussian noise and divides by
    the expected batch size. It protects records and promises nothing about groups:
    they are checked and named in `groups_`, and not used in training. `certify` states
    what gap its predictions have.

    Parameters
    ----------
    public_parity : PublicParity or None, default=None
        Penalty on the gap between groups among *public* rows, which costs no privacy.

    References
    ----------
    Abadi et al., "Deep Learning with Differential Privacy", CCS 2016, Algorithm 1,
    with Poisson batches and the expected batch size as the divisor. With
    `public_parity`: FairDP-SGD of Yaghini et al., "Learning to Walk Impartially on the
    Pareto Frontier of Fairness, Privacy, and Utility", 2023 (arXiv 2302.09183).

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skfairdp import DPSGDClassifier
    >>> X, y = make_classification(2000, random_state=0)
    >>> model = DPSGDClassifier(epsilon=1.0).fit(X, y)
    >>> model.predict_proba(X).shape
    (2000, 2)
    >>> bool(model.privacy_.epsilon <= 1.0)
    True
    """

    _parameters = {"public_parity": (Kind((PublicParity,), "a PublicParity"), NONE)}

    def __init__(
        self,
        net: Any = None,
        *,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        noise_multiplier: float | None = None,
        max_grad_norm: float = 1.0,
        batch_size: int | str = "auto",
        max_epochs: int = 20,
        dataset_size: int | None = None,
        classes: Sequence[Any] | None = None,
        learning_rate_schedule: Any = "linear",
        public_parity: PublicParity | None = None,
        random_state: int | RandomState | None = None,
        reproducible_noise: bool = False,
        exact_noise: bool = False,
        progress: bool | None = None,
        ledger: str | PathLike[str] | PrivacyLedger | None = None,
    ) -> None:
        self.net = net
        self.epsilon = epsilon
        self.delta = delta
        self.noise_multiplier = noise_multiplier
        self.max_grad_norm = max_grad_norm
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.dataset_size = dataset_size
        self.classes = classes
        self.learning_rate_schedule = learning_rate_schedule
        self.public_parity = public_parity
        self.random_state = random_state
        self.reproducible_noise = reproducible_noise
        self.exact_noise = exact_noise
        self.progress = progress
        self.ledger = ledger

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        return Sizes.of_all(n, self.dataset_size)

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        return sizes.descent(
            batch_size=self.batch_size,
            max_epochs=self.max_epochs,
            max_grad_norm=self.max_grad_norm,
            noise_multiplier=noise_multiplier,
            delta=self.delta,
            exact_noise=self.exact_noise,
        )

    def _check_net(self, prepared: PreparedNet, plan: Plan, row_shape: tuple[int, ...]) -> None:
        super()._check_net(prepared, plan, row_shape)
        if self.public_parity is not None:
            self.public_parity.bind(prepared, row_shape)

    def _train(self, run: Run) -> None:
        parity = self.public_parity
        adjust = None if parity is None else parity.bind(run.prepared, run.release.row_shape)
        run.descend(adjust_gradient=adjust)

    def _guarantee(
        self, plan: Plan, noise: NoiseSource, groups: Groups | None
    ) -> PrivacyGuarantee | None:
        stated = super()._guarantee(plan, noise, groups)
        if stated is None or self.public_parity is None:
            return stated
        return dataclasses.replace(stated, assumptions=(*stated.assumptions, PARITY_ROWS))
