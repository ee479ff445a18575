"""DP-SGD on batches in which every group is expected to have the same share."""

from __future__ import annotations

from skfairdp.inprocessing.grouped import GroupedClassifier
from skfairdp.privacy.plan import Block, Plan, Segment
from skfairdp.privacy.sizes import Sizes, steps_for


class ImportanceSamplingDPSGDClassifier(GroupedClassifier):
    """DP-IS-SGD: small groups are drawn more often, and pay for it in privacy.

    Each step draws a record of group g with the probability
    ``min(1, q n / (K n_g))``, q the expected share of a batch and n_g the size of one of
    K groups: every group has the same expected number of records in a batch. Gradients
    enter with equal weight, so that the average over groups is minimised and not that
    over people; nothing is promised about gaps.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy budget in nats, at least 1e-4, for every record: it is that of the group
        with the largest sampling rate. ``privacy_.per_group`` states what a record of
        each group costs. None when `noise_multiplier` is given; infinity trains without
        noise.
    batch_size : int or "auto", default="auto"
        Expected records in a batch; "auto" is ``min(256, ceil(n / 10))``. Fewer where a
        group has less than its share of them in all.
    group_sizes_epsilon : float or None, default=None
        Part of `epsilon` that buys noisy group sizes instead. A small group is then
        taken for at least what the noise could make of none, which bounds its rate.

    Attributes
    ----------
    plan_ : Plan
        Everything the accountant charged; ``plan_.segments[0].rates`` are the sampling
        rates of the groups.

    References
    ----------
    Kulynych, Yang, Yu, Blasiok and Nakkiran, "What You See is What You Get: Principled
    Deep Learning via Distributional Generalization", NeurIPS 2022 (arXiv 2204.03230),
    section 4. Rates here follow from sizes that are declared, bought, or public.

    Examples
    --------
    >>> from skfairdp import ImportanceSamplingDPSGDClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=2000, random_state=0)
    >>> model = ImportanceSamplingDPSGDClassifier(epsilon=2.0)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> sorted(model.privacy_.per_group) == sorted(model.groups_)
    True
    """

    _in_parts = True

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        batch_size = self._batch_size(sizes.total)
        drawn, n_groups = batch_size / sizes.total * sizes.total, len(sizes.cells)
        of_group = tuple(min(1.0, drawn / (n_groups * count)) for count in sizes.counts)
        expected = tuple(r * count for r, count in zip(of_group, sizes.counts, strict=True))
        clip, weight = float(self.max_grad_norm), 1.0 / sum(expected)
        std, weights = noise_multiplier * clip * weight, (weight,) * len(expected)
        block = Block(name="gradient", max_norm=clip, weights=weights, noise_std=std)
        steps = steps_for(self.max_epochs, sizes.total, batch_size)
        segment = Segment(steps=steps, rates=of_group, expected_sizes=expected, blocks=(block,))
        return sizes.plan(segment, delta=self.delta, exact_noise=self.exact_noise)
