"""DP-SGD whose clipping norm adapts to each group."""

from __future__ import annotations

from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from skfairdp.foundation.parameters import POSITIVE, Number
from skfairdp.inprocessing.gradient import Run
from skfairdp.inprocessing.grouped import GroupedClassifier
from skfairdp.privacy.plan import Plan, Segment
from skfairdp.privacy.sizes import Sizes

if TYPE_CHECKING:
    from torch import Tensor


class DPSGDFClassifier(GroupedClassifier):
    """DPSGD-F: a group with more long gradients gets a larger clipping norm.

    Each step draws a Poisson batch and first counts, under noise, how many gradients of each
    group are longer than C0. A group with the share r of long ones, where all groups together
    have the share R, is clipped to ``C0 (1 + r / R)``, within [C0, c C0]; then the clipped
    gradients of the same batch are summed under noise. It aims at equal loss in all groups,
    hence at accuracy parity, and promises nothing about it. See
    ``docs/theory/group_gradients.md``.

    Parameters
    ----------
    noise_multiplier : float or None, default=None
        Noise standard deviation of the gradient sum over the largest clipping norm of the
        step, instead of `epsilon`.
    count_noise_ratio : float, default=10.0
        Noise standard deviation of a count, in records, over the noise multiplier, > 0.
        Both queries read one batch: a step is charged with the combined multiplier
        ``noise_multiplier / sqrt(1 + count_noise_ratio**-2)``.
    max_grad_norm : float, default=1.0
        C0, the smallest clipping norm.
    max_norm_factor : float, default=3.0
        c, the largest clipping norm over C0, at least 1. With 1 it is DP-SGD.

    Attributes
    ----------
    clip_norms_ : dict
        Mean clipping norm of each group over all steps; computed from noisy counts.
    plan_ : Plan
        Everything the accountant charged; the gradient's block is in units of the
        step's largest clipping norm.

    References
    ----------
    Xu, Du and Wu, "Removing Disparate Impact on Model Accuracy in Differentially
    Private Stochastic Gradient Descent", KDD 2021 (arXiv 2003.03699), Algorithm 2: here counts
    are clamped, clipping norms bounded, and the two queries of a batch charged as one.

    Examples
    --------
    >>> from skfairdp import DPSGDFClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=2000, random_state=0)
    >>> model = DPSGDFClassifier(epsilon=2.0)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> bool(min(model.clip_norms_.values()) >= 1.0)
    True
    """

    count_noise_ratio: float = 10.0
    max_norm_factor: float = 3.0

    _in_parts = True
    _parameters = {"count_noise_ratio": (POSITIVE,), "max_norm_factor": (Number(1.0),)}

    clip_norms_: dict[Any, float] = field(init=False)

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        size, std = self._batch_size(sizes.total), noise_multiplier * float(self.count_noise_ratio)
        counts = sizes.whole(("long and other gradients", 1.0, std))
        segment = sizes.batches(self.max_epochs, size, ("gradient", 1.0, noise_multiplier))
        segment = replace(segment, blocks=(*counts.blocks, *segment.blocks))
        return sizes.plan(segment, delta=self.delta, exact_noise=self.exact_noise)

    def _train(self, run: Run) -> None:
        base, factor = float(self.max_grad_norm), float(self.max_norm_factor)
        total = np.zeros(len(run.plan.cells))
        choose = partial(adaptive_norms, base_norm=base, max_factor=factor)

        def released_gradient(segment: Segment) -> Tensor:
            gradient, norms = run.release.adaptive_gradient(segment, base, choose)
            np.add(total, norms, out=total)
            return gradient

        run.descend(released_gradient=released_gradient)
        means = (total / run.plan.steps).tolist()
        self.clip_norms_ = dict(zip(run.plan.cells, means, strict=True))


def adaptive_norms(counts: np.ndarray, base_norm: float, max_factor: float) -> np.ndarray:
    """Choose the clipping norm of every group: ``C0 (1 + r_k / R)``, and C0 where none is long.

    `counts` (n_groups, 2): noisy numbers of long and of other gradients; negative ones count as 0.
    """
    counts = np.maximum(counts, 0.0)
    long, drawn = counts[:, 0], counts.sum(axis=1)
    overall = long.sum() / max(drawn.sum(), 1.0)
    share = long / np.maximum(drawn, 1.0)
    ratio = share / overall if overall > 0.0 else np.zeros_like(share)
    return np.asarray(base_norm * np.clip(1.0 + ratio, 1.0, max_factor))
