"""Lagrangian dual learning that protects the sensitive attribute alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skfairdp.foundation.assumptions import DECLINING
from skfairdp.foundation.parameters import COUNT, NORM, POSITIVE, Choice, Number, fixed
from skfairdp.inprocessing.budgeted import ATTRIBUTE
from skfairdp.inprocessing.gradient import Run
from skfairdp.inprocessing.rates.constraints import RateConstraints, label_cells
from skfairdp.inprocessing.rates.training import (
    BlockLagrangian,
    ConstrainedClassifier,
    DualAscent,
    Lagrangian,
)
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan, Segment
from skfairdp.privacy.sizes import Sizes, expected_batch_size, steps_for
from skfairdp.records.groups import Groups, groups_of_training

if TYPE_CHECKING:
    from torch import Tensor

    from skfairdp.engine.objectives import Objective


_RELATION = "change-attribute"
GRADIENT, TABLE = "gradients of rates", "table of predictions"


class LagrangianDualClassifier(ConstrainedClassifier):
    """Network whose rates are equalised without revealing a person's sensitive attribute.

    Features and labels are public here; who belongs to which group is protected. The
    loss is therefore learned without noise. In every step of the second phase a Poisson
    batch releases, group by group and each with its own noise, the sum of clipped
    gradients of the constrained rates and a table of predictions; multipliers weigh the
    noisy sums. It is PF-LD with sound accounting, and F-LD for ``epsilon=inf``.

    A person whose attribute is missing (None, NaN) takes part in the loss alone. Without
    `sensitive_features` there is no constraint, and nothing is released.

    Parameters
    ----------
    notion : str, Notion or sequence of them, default="demographic_parity"
        Which rates of every group shall equal those of all rows: one or several of
        "demographic_parity", "equal_opportunity", "equalized_odds", "accuracy_parity".
    tolerance : float or mapping of notion to float, default=0.01
        Difference to the rate of all rows, in [0, 1), that raises no multiplier.
    epsilon : float or None, default=1.0
        Privacy budget of the attribute in nats, at least 1e-4; the noise is calibrated
        to it. Infinity trains without noise. None when `noise_multiplier` is given.
    noise_multiplier : float or None, default=None
        Noise standard deviation over the norm of one record's whole contribution to its
        group's block, instead of `epsilon`.
    max_grad_norm : float, default=1.0
        C_p: largest L2 norm of one record's gradient of its rates.
    max_constraint_norm : float, default=1.0
        C_d: largest L2 norm of one record's entry in the table of predictions. The entry
        has norm 1: a larger bound only adds noise, a smaller one changes nothing.
    histogram_share : float, default=0.3
        Share of the contribution's norm, in (0, 1), that the table gets.
    sharpness : float, default=1.0
        Factor on logits before they become the soft predictions that gradients see.
    dual : {"steps", "epochs"}, default="steps"
        Whether multipliers move with every step's table, or once an epoch with a table
        of all rows (as published).
    dual_rate : float, default=0.05
        Step size of the multipliers.
    penalty : float, default=3.0
        Weight of the quadratic term of an augmented Lagrangian.
    max_multiplier : float, default=2.0
        Largest multiplier, lambda_max.
    memory : float, default=0.97
        Weight in [0, 1) of the past in the moving mean of the tables, for
        ``dual="steps"``.
    batch_size : int or "auto", default="auto"
        Expected records in a secret batch; "auto" is ``min(1024, ceil(n / 8))``.
    loss_batch_size : int or "auto", default="auto"
        Rows in a public batch for the loss; "auto" is a quarter of `batch_size`.
    warmup_epochs : int, default=8
        Passes over the public rows before the first noisy release; they cost nothing.
    max_epochs : int, default=30
        Passes with constraints, each of ``ceil(n / batch_size)`` steps.
    groups : sequence or None, default=None
        Declared groups; rows of others count as missing. None takes them from the rows;
        the set is then public.
    classes : sequence or None, default=None
        Declared class labels; rows of others are left out. None takes them from `y`.

    Raises
    ------
    ValueError
        At fit: fewer than two groups among the sensitive features, or another invalid
        parameter.

    References
    ----------
    Tran, Fioretto and Van Hentenryck, "Differentially Private and Fair Deep Learning: A
    Lagrangian Dual Approach", AAAI 2021, Algorithm 1 and equations (10) and (13). Blocks
    and accounting are derived in ``docs/theory/attribute_privacy.md``; Theorems 1 and 2
    and equation (10) of the paper do not give the privacy that they state.

    Examples
    --------
    >>> from skfairdp import LagrangianDualClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=2000, random_state=0)
    >>> model = LagrangianDualClassifier(epsilon=1.0, progress=False)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> model.privacy_.protects, bool(model.privacy_.epsilon <= 1.0)
    ('sensitive_features', True)
    """

    tolerance: float | Mapping[str, float] = 0.01
    max_constraint_norm: float = 1.0
    histogram_share: float = 0.3
    sharpness: float = 1.0
    dual: str = "steps"
    dual_rate: float = 0.05
    penalty: float = 3.0
    max_multiplier: float = 2.0
    memory: float = 0.97
    averaged_share: float = 0.2
    loss_batch_size: int | str = "auto"
    warmup_epochs: int = 8

    # An attribute's guarantee stands on neither.
    dataset_size = fixed(None)
    max_rows_per_person = fixed(1)
    _takes_persons = False
    _needs_groups = "rates are compared between groups, and the group is protected"

    _parameters = {
        "max_constraint_norm": (NORM,),
        "sharpness": (POSITIVE,),
        "dual": (Choice(("steps", "epochs")),),
        "loss_batch_size": (COUNT, Choice(("auto",))),
        "warmup_epochs": (Number(0, integer=True),),
    }

    _protected = ATTRIBUTE
    _auto_batch = 1024, 8

    def _also_assumed(self) -> tuple[str, ...]:
        return (DECLINING,)

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups | None:
        groups = groups_of_training(sensitive_features, n, self.groups, on_missing="drop")
        if len(groups.labels) < 2:
            found = "'groups' declares" if self.groups is not None else "they hold"
            raise ValueError(
                f"'sensitive_features' must hold at least two groups; {found} "
                f"{len(groups.labels)}, not counting missing values. Without known attributes the "
                "rates of groups cannot be estimated."
            )
        return groups

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        # How many people are in a group is protected; how many there are is not.
        assert groups is not None
        return Sizes(groups.labels, (n,), _RELATION)

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        n, n_cells = sizes.total, len(sizes.cells)
        batch, share = self._batch_size(n), float(self.histogram_share)
        clip, bound = float(self.max_grad_norm), float(self.max_constraint_norm)

        def segment(steps: int, size: int, *blocks: tuple[str, float, float]) -> Segment:
            # Every group's sum is released by itself, in shares of the whole batch.
            shares = ((name, norm, std / size) for name, norm, std in blocks)
            whole = sizes.whole(*shares, weights=(1.0 / size,) * n_cells, steps=steps)
            rates, expected = (size / n,) * n_cells, (size / n_cells,) * n_cells
            return replace(whole, rates=rates, expected_sizes=expected)

        gradient = (GRADIENT, clip, noise_multiplier * clip / math.sqrt(1.0 - share**2))
        of_table = noise_multiplier * bound / share
        steps = steps_for(int(self.max_epochs), n, batch)
        first = segment(steps_for(int(self.warmup_epochs), n, self._loss_batch(n)), batch)
        if self.dual == "steps":
            noisy = [segment(steps, batch, gradient, (TABLE, bound, of_table))]
        else:
            # One table of all rows instead of those of an epoch's batches, at their price.
            table = (TABLE, bound, of_table * math.sqrt(n / batch))
            of_epoch = segment(steps // int(self.max_epochs), batch, gradient)
            noisy = [segment(1, n, table), of_epoch] * int(self.max_epochs)
        return sizes.plan(first, *noisy, delta=self.delta, exact_noise=self.exact_noise)

    def _objective(self, base: Objective, groups: Groups | None, classes: np.ndarray) -> Objective:
        from skfairdp.inprocessing.rates.objective import LossOrRates

        assert groups is not None
        constraints = RateConstraints(
            self.notion, list(classes), len(groups.labels), self.tolerance, against="population"
        )
        return LossOrRates(base, constraints, float(self.sharpness))

    def _targets(self, labels: Tensor, groups: np.ndarray | None) -> tuple[Tensor, ...]:
        return labels, label_cells(labels, groups, self.classes)

    def _rows_beside(self, n: int) -> int:
        return self._loss_batch(n)

    def _loss_batch(self, n: int) -> int:
        if self.loss_batch_size == "auto":
            return -(-self._batch_size(n) // 4)
        return expected_batch_size(self.loss_batch_size, n)

    def _lagrangian(self, run: Run, constraints: RateConstraints) -> Lagrangian:
        from skfairdp.engine.clipping.clippers import make_clipper
        from skfairdp.engine.objectives import objective_for
        from skfairdp.inprocessing.rates.objective import LossOrRates

        dual = DualAscent(
            constraints.tolerances,
            rate=float(self.dual_rate),
            penalty=float(self.penalty),
            limit=float(self.max_multiplier),
        )
        loss = objective_for(run.prepared.criterion)
        clipper = make_clipper(run.prepared.module, run.prepared.flat, loss)
        assert isinstance(run.objective, LossOrRates)
        rows = run.release.public_rows(clipper, (run.objective.nobody,))
        return BlockLagrangian(
            constraints,
            dual,
            memory=float(self.memory) if self.dual == "steps" else 0.0,
            noise_std=run.plan.segments[1].blocks[-1].noise_std,
            loss_rows=rows,
            loss_batch=self._loss_batch(len(rows)),
        )

    def _release(
        self, run: Run, segment: Segment, lagrangian: Lagrangian
    ) -> tuple[Tensor, Tensor | None]:
        from skfairdp.inprocessing.rates.objective import LossOrRates

        assert isinstance(lagrangian, BlockLagrangian)
        assert isinstance(run.objective, LossOrRates)
        release, table = run.release, run.objective.statistic
        rows, size = lagrangian.loss_rows, lagrangian.loss_batch
        blocks = tuple(block.name for block in segment.blocks)
        if GRADIENT not in blocks:
            loss = rows.gradient(size)
            if TABLE in blocks:
                return loss, release.statistic(segment, table, run.prepared.module)
            return loss, None
        # Two batches drawn apart; where it is safe, they share a pass through the network.
        joined = rows.batch(size) if release.joins else None
        apart = rows.gradient(size) if joined is None else 0.0
        options: dict[str, Any] = {"cell_weights": lagrangian.cell_weights, "public": joined}
        if TABLE not in blocks:
            return apart + release.gradient(segment, **options), None
        gradient, histogram = release.gradient_and_statistic(segment, table, **options)
        return apart + gradient, histogram
