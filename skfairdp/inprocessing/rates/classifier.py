"""Private learning under rate constraints: records are protected, gaps are driven to a target."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from skfairdp.foundation.parameters import PROBABILITY
from skfairdp.inprocessing.class_weights import refuse_threshold_of_several
from skfairdp.inprocessing.gradient import Run
from skfairdp.inprocessing.rates.constraints import RateConstraints, compared_groups, label_cells
from skfairdp.inprocessing.rates.training import ConstrainedClassifier, Lagrangian, ScaledAscent
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes
from skfairdp.records.groups import Groups

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from skfairdp.engine.objectives import Objective


class RateConstrainedClassifier(ConstrainedClassifier):
    """Network that is trained to a target gap between groups, with private records.

    Say how large the gap between groups may be; no search for a weight is needed. Every
    step draws one batch and releases two noisy sums from it: the clipped gradients of the
    Lagrangian, and a table (group x label x prediction) of present decisions, which multipliers of
    the constraints follow. Both sums are charged as one query.

    The target is a target: sampling and noise leave the gap on new rows around it, on
    Adult and Default-CCC within .01. `certify` states the guarantee.

    Parameters
    ----------
    notion : str, Notion or sequence of them, default="demographic_parity"
        Which rates shall be alike in every pair of groups: one or several of
        "demographic_parity", "equal_opportunity", "equalized_odds", "accuracy_parity", or
        your own notions (`skfairdp.fairness.Notion`).
    tolerance : float or mapping of notion to float, default=0.02
        Largest difference of rates, in [0, 1). Where notions share a rate, the smaller
        tolerance holds.
    threshold : float, default=0.5
        Cost of a false positive, in (0, 1), where that of a missed positive is one less it; so
        without constraints the second of two classes is predicted where its chance is above this
        number. A public number. Decisions are trained to cost least within the tolerance.
    noise_multiplier : float or None, default=None
        Noise standard deviation over the norm of one record's whole contribution to a
        step, instead of `epsilon`.
    max_grad_norm : float, default=5.0
        Largest L2 norm of one record's gradient of the Lagrangian. Costs of rare groups
        are large; a small norm cuts them off.
    histogram_share : float, default=0.5
        Share of a contribution's norm, in (0, 1), that the table gets: its noise
        multiplier is that of the step divided by it.
    dual_rate : float, default=0.006
        Most that a multiplier moves in a step, for a violation as large as its scale,
        see `skfairdp.inprocessing.rates.training.ScaledAscent`.
    penalty : float, default=0.1
        What such a violation adds to a multiplier at once, against swings.
    max_multiplier : float, default=1.0
        Largest multiplier, in errors per unit of gap. (With a `threshold`, an error is the mean of
        both mistakes.)
    memory : float, default=0.9
        Weight in [0, 1) of the past in the estimated rates.
    batch_size : int or "auto", default="auto"
        Expected records in a batch; "auto" is ``min(1024, ceil(n / 16))``.
    learning_rate_schedule : None, "linear", "cosine" or sequence of pairs, \
default="linear"
        Factor on the learning rate, and on `dual_rate`, over the steps; pairs are
        (fraction of steps, factor).

    Attributes
    ----------
    multipliers_ : ndarray of float64, shape (n_constraints,)
        Signed multipliers at the end: rate by rate in the order of the notions, and for
        each rate the pairs of groups (first, second), (first, third), ...
    released_gaps_ : ndarray of float64, shape (n_constraints,)
        Noisy gaps of the last steps that moved them; not those of the averaged model.

    Notes
    -----
    `predict_proba` is calibrated to costs, not to frequencies: what tells classes apart
    is which side of 1/2 it is on, whatever `threshold` is. A group without rows of one label
    raises nothing and binds nothing, because that it is empty is private.

    References
    ----------
    The cost-sensitive view is that of Agarwal et al., "A Reductions Approach to Fair
    Classification", ICML 2018; rates for the multipliers and a surrogate for the weights
    that of Cotter et al., "Two-Player Games for Efficient Non-Convex Constrained
    Optimization", ALT 2019; a released table of predictions with the gradient that of
    Yaghini et al., "Private Rate-Constrained Optimization with Applications to Fair
    Learning", 2025 (arXiv 2505.22703). Accounting and defaults are derived in
    ``docs/theory/rate_constrained.md``.

    Examples
    --------
    >>> from skfairdp import RateConstrainedClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=2000, random_state=0)
    >>> model = RateConstrainedClassifier(tolerance=0.1, epsilon=2.0)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> bool(model.privacy_.epsilon <= 2.0)
    True
    """

    threshold: float = 0.5
    max_grad_norm: float = 5.0
    histogram_share: float = 0.5
    dual_rate: float = 0.006
    penalty: float = 0.1
    max_multiplier: float = 1.0
    memory: float = 0.9

    _parameters = {"threshold": (PROBABILITY,)}
    _in_parts = True
    _auto_batch = 1024, 16
    _needs_groups = "rates are compared between groups"

    released_gaps_: np.ndarray = field(init=False)

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups:
        return compared_groups(sensitive_features, n, self.groups)

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        if self.threshold != 0.5:
            refuse_threshold_of_several(self.threshold, sizes.n_classes)
        clip, share = float(self.max_grad_norm), float(self.histogram_share)
        # share^2 + (1 - share^2) = 1: together the sums have the multiplier of the step.
        of_gradient = noise_multiplier * clip / math.sqrt(1.0 - share**2)
        of_histogram = ("histogram", 1.0, noise_multiplier / share)
        return self._plan_sums(sizes, ("gradient", clip, of_gradient), of_histogram)

    def _objective(self, base: Objective, groups: Groups | None, classes: np.ndarray) -> Objective:
        from skfairdp.inprocessing.rates.objective import CostObjective

        assert groups is not None
        constraints = RateConstraints(
            self.notion, list(classes), len(groups.labels), self.tolerance
        )
        return CostObjective(base, constraints, float(self.threshold))

    def _targets(self, labels: torch.Tensor, groups: np.ndarray | None) -> tuple[Tensor, ...]:
        return (label_cells(labels, groups, self.classes),)  # the cell contains the label

    def _lagrangian(self, run: Run, constraints: RateConstraints) -> Lagrangian:
        dual = ScaledAscent(
            constraints.tolerances,
            rate=float(self.dual_rate),
            penalty=float(self.penalty),
            limit=float(self.max_multiplier),
            factors=np.asarray(run.learning_rates) / max(run.learning_rates),
        )
        std = run.plan.segments[0].blocks[1].noise_std
        return Lagrangian(constraints, dual, memory=float(self.memory), noise_std=std)

    def _finish(self, lagrangian: Lagrangian) -> None:
        super()._finish(lagrangian)
        self.released_gaps_ = lagrangian.gaps
