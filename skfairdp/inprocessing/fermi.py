"""DP-FERMI: private descent and ascent on loss plus dependence on the group.

Dependence is the exponential Renyi mutual information. For soft predictions p and the share P_r of
group r,

    psi_i(W) = sum_j p_ij (2 W[s_i, j] / sqrt(P_{s_i}) - sum_r W[r, j]**2) - 1

is concave in W, and the largest mean over records is the chi-square divergence of (group,
prediction) from independence (``docs/theory/group_gradients.md``). Under equalized odds there is
one W for each label, and shares are those within the label.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from skfairdp.foundation.parameters import NORM, POSITIVE, Choice, Number
from skfairdp.inprocessing.budgeted import refuse_price
from skfairdp.inprocessing.gradient import Run
from skfairdp.inprocessing.grouped import GroupedClassifier
from skfairdp.inprocessing.rates.constraints import label_cells
from skfairdp.privacy.plan import CountRelease, Plan, Segment
from skfairdp.privacy.sizes import Sizes
from skfairdp.records.groups import Groups

if TYPE_CHECKING:
    from torch import Tensor

    from skfairdp.engine.objectives import Objective
    from skfairdp.engine.release import Rows
    from skfairdp.inprocessing.fermi_objective import ErmiObjective


# A group below this share of the rows is weighted as if it had so much: its records'
# gradients would be longer than any clipping norm of use.
SMALLEST_SHARE = 0.01


class DPFermiClassifier(GroupedClassifier):
    """DP-FERMI: the loss plus a multiple of the predictions' dependence on the group.

    Dependence is measured by the exponential Renyi mutual information (ERMI), the largest
    value, over a matrix W, of a mean over records. Each step draws one Poisson batch and releases
    the clipped gradients for the network, which descends, and those for W, which ascends. A
    larger `fairness_weight` narrows the gap and costs accuracy; no gap is promised, so look at
    the certificate. See ``docs/theory/group_gradients.md``.

    Parameters
    ----------
    notion : {"demographic_parity", "equalized_odds"}, default="demographic_parity"
        Whether predictions should not depend on the group, or not among records of one
        label.
    fairness_weight : float, default=5.0
        Weight of ERMI, added to the mean loss, >= 0.
    dual_noise_ratio : float, default=5.0
        Noise multiplier of W's gradient over that of the network's, > 0. Both are
        sums over one batch: a step is charged with the combined multiplier
        ``noise_multiplier / sqrt(1 + dual_noise_ratio**-2)``.
    max_grad_norm : float, default=1.0
        Largest L2 norm of one record's gradient for the network, loss and dependence
        together.
    max_dual_grad_norm : float or "auto", default="auto"
        Largest L2 norm of one record's gradient for W. "auto" is
        ``2 / sqrt(smallest share of a group)``, the share taken for at least .01.
    max_dual_norm : float, default=5.0
        Largest Frobenius norm of W, > 0; independence needs the square root of the
        number of classes.
    dual_learning_rate : float, default=0.3
        Step length of W.
    label_counts_epsilon : float, default=0.05
        For "equalized_odds": part of `epsilon` that buys the (group x label) table from
        which shares within a label are taken.

    Attributes
    ----------
    dual_ : ndarray, shape (n_strata, n_groups, n_classes)
        W after the last step, one matrix a label under "equalized_odds", else one.

    References
    ----------
    Lowy, Gupta and Razaviyayn, "Stochastic Differentially Private and Fair Learning",
    ICLR 2023 (arXiv 2210.08781), Algorithm 1, which protects the group alone; here whole
    records are protected, and shares are public, declared or bought.

    Examples
    --------
    >>> from skfairdp import DPFermiClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=2000, random_state=0)
    >>> model = DPFermiClassifier(epsilon=2.0)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> model.dual_.shape
    (1, 2, 2)
    """

    notion: str = "demographic_parity"
    fairness_weight: float = 5.0
    dual_noise_ratio: float = 5.0
    max_dual_grad_norm: float | str = "auto"
    max_dual_norm: float = 5.0
    dual_learning_rate: float = 0.3
    label_counts_epsilon: float = 0.05

    _parameters = {
        "notion": (Choice(("demographic_parity", "equalized_odds")),),
        "fairness_weight": (Number(0.0),),
        "dual_noise_ratio": (POSITIVE,),
        "max_dual_grad_norm": (NORM, Choice(("auto",))),
        "max_dual_norm": (NORM,),
        "dual_learning_rate": (POSITIVE,),
        "label_counts_epsilon": (POSITIVE,),
    }
    _in_parts = True

    dual_: np.ndarray = field(init=False)

    def _check_settings(self) -> None:
        super()._check_settings()
        if self._by_label:
            price = self.label_counts_epsilon
            refuse_price(self.epsilon, price, f"'label_counts_epsilon' = {price:g}")

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups | None:
        groups = super()._encode_groups(sensitive_features, n)
        if groups is None or len(groups.labels) < 2:
            raise ValueError("'sensitive_features' must hold at least two groups.")
        return groups

    @property
    def _by_label(self) -> bool:
        return self.notion == "equalized_odds"

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        clip, smallest = float(self.max_grad_norm), min(sizes.counts) / sizes.total
        if self.max_dual_grad_norm == "auto":
            dual_clip = 2.0 / max(smallest, SMALLEST_SHARE) ** 0.5
        else:
            dual_clip = float(self.max_dual_grad_norm)
        sums = (
            ("gradient", clip, noise_multiplier * clip),
            ("gradient of W", dual_clip, noise_multiplier * self.dual_noise_ratio * dual_clip),
        )
        counts: tuple[CountRelease, ...] = ()
        if self._by_label:
            price = float(self.label_counts_epsilon)
            counts = (CountRelease(name="group x label", epsilon=price),)
        return self._plan_sums(sizes, *sums, counts=counts)

    def _objective(self, base: Objective, groups: Groups | None, classes: np.ndarray) -> Objective:
        from skfairdp.inprocessing.fermi_objective import ErmiObjective

        assert groups is not None
        n_strata = len(classes) if self._by_label else 1
        return ErmiObjective(
            base, len(groups.labels), n_strata, len(classes), float(self.fairness_weight)
        )

    def _targets(self, labels: Tensor, groups: np.ndarray | None) -> tuple[Tensor, ...]:
        import torch

        if self._by_label:
            return labels, label_cells(labels, groups, self.classes)
        assert groups is not None
        return labels, torch.from_numpy(groups).long().to(labels.device).clamp(min=0)

    def _train(self, run: Run) -> None:
        from skfairdp.inprocessing.fermi_objective import DualMatrix, ErmiObjective

        objective = run.objective
        assert isinstance(objective, ErmiObjective)
        weights, rate = run.prepared.flat.vector, float(self.dual_learning_rate)
        dual = DualMatrix(self._shares(run, objective), objective.shape[-1], self.max_dual_norm)
        objective.follow(dual, weights)

        def released_gradient(segment: Segment) -> Tensor:
            gradient, of_dual = run.release.gradient_and_statistic(segment, objective.statistic)
            dual.ascend(of_dual.cpu().numpy(), rate)
            objective.follow(dual, weights)
            return gradient

        run.descend(released_gradient=released_gradient)
        self.dual_ = dual.W

    def _shares(self, run: Run, objective: ErmiObjective) -> np.ndarray:
        """Share of each group, in each stratum: (n_groups, n_strata)."""
        if self._by_label:
            n_groups, n_strata, _ = objective.shape
            table = run.release.counts(run.plan.counts[0], _cells, n_groups * n_strata)
            sizes = table.reshape(n_groups, n_strata).clip(min=1).astype(np.float64)
        else:
            sizes = np.array(run.plan.segments[0].expected_sizes)[:, None]
        return np.maximum(sizes / sizes.sum(axis=0), SMALLEST_SHARE)


def _cells(rows: Rows) -> np.ndarray:
    return np.where(rows.codes >= 0, rows.targets[1].cpu().numpy(), -1)
