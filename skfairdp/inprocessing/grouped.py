"""What mechanisms share that sample, clip or weigh by group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skfairdp.fairness.groups import Groups, encode_groups
from skfairdp.inprocessing.gradient import GradientClassifier
from skfairdp.parameters import MAPPING, NONE, POSITIVE
from skfairdp.privacy.accounting.plan_cost import budget_guarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.sizes import Sizes, check_group_sizes, noisy_sizes


class GroupedClassifier(GradientClassifier):
    """Template of a mechanism whose cells are the groups.

    Sizes of groups are declared (``group_sizes``), bought (``group_sizes_epsilon``) or
    taken from the rows.

    Parameters
    ----------
    dataset_size : int or None
        Declared number of records; must be the sum of `group_sizes` when both are given.
    group_sizes : mapping or None
        Declared number of records of each group. Fixes the groups (rows of others
        contribute nothing) and makes the guarantee one for adding or removing a
        record. None takes sizes and groups from the rows ("zero-out" adjacency).
    group_sizes_epsilon : float or None
        Part of `epsilon` that buys noisy group sizes instead.

    Attributes
    ----------
    groups_ : tuple or None
        Groups of the plan.
    """

    group_sizes: Mapping[Any, int] | None = None
    group_sizes_epsilon: float | None = None

    _needs_groups = "its sums are sampled, clipped or weighted by group"
    _parameters = {"group_sizes": (MAPPING, NONE), "group_sizes_epsilon": (POSITIVE, NONE)}

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.group_sizes is not None and self.group_sizes_epsilon is not None:
            raise ValueError(
                "Set 'group_sizes' (declared) or 'group_sizes_epsilon' (bought), not both."
            )

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups | None:
        return declared_groups(sensitive_features, n, self.group_sizes)

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        if self.group_sizes_epsilon is not None and groups is not None:
            # The sizes that the plan is made from are bought first, and charged with all the rest.
            self._charge(
                budget_guarantee(
                    self.epsilon,
                    self.delta,
                    reproducible=noise.reproducible,
                    protects=self._unit,
                )
            )
        return settled_sizes(
            groups,
            n,
            dataset_size=self.dataset_size,
            group_sizes=self.group_sizes,
            group_sizes_epsilon=self.group_sizes_epsilon,
            noise=noise,
            free=self._free,
        )


def declared_groups(
    sensitive_features: Any, n: int, group_sizes: Mapping[Any, int] | None
) -> Groups | None:
    """Sort rows into the groups that were declared with their sizes, or that occur.

    `sensitive_features`: group of each row; None for one group. `group_sizes`: declared sizes;
    rows of other groups then contribute nothing.
    """
    if sensitive_features is None:
        if group_sizes is not None:
            raise ValueError("'group_sizes' is set, but fit got sensitive_features=None.")
        return None
    if group_sizes is not None:
        labels = tuple(check_group_sizes(group_sizes))
        return encode_groups(sensitive_features, n_rows=n, labels=labels, on_unknown="drop")
    groups = encode_groups(sensitive_features, n_rows=n)
    if len(groups.labels) < 2:
        raise ValueError(
            "'sensitive_features' must hold at least two groups; got one. Pass None to train "
            "without groups."
        )
    return groups


def settled_sizes(
    groups: Groups | None,
    n: int,
    *,
    dataset_size: int | None,
    group_sizes: Mapping[Any, int] | None,
    group_sizes_epsilon: float | None,
    noise: NoiseSource,
    free: bool,
) -> Sizes:
    """Settle the public sizes: declared, bought, or read off the rows.

    `groups`: groups of the rows; None for one group. `group_sizes`: declared number of records of
    each group. `group_sizes_epsilon`: price of noisy sizes in nats. `free`: whether nothing is
    protected (``epsilon=inf``): sizes are then exact.
    """
    if groups is None:
        return Sizes.of_all(n, dataset_size)
    if group_sizes is not None:
        sizes = check_group_sizes(group_sizes)
        counts = tuple(sizes[label] for label in groups.labels)
        if dataset_size not in (None, sum(counts)):
            raise ValueError(
                f"'dataset_size' = {dataset_size} must be the sum of 'group_sizes', {sum(counts)}."
            )
        return Sizes(groups.labels, counts, "add-remove")
    if dataset_size is not None:
        raise ValueError(
            f"'dataset_size' = {dataset_size} declares no size of a group; with sensitive_features "
            "declare 'group_sizes', a mapping from every group to its number of records."
        )
    if group_sizes_epsilon is not None and not free:
        return noisy_sizes(groups.counts, groups.labels, group_sizes_epsilon, noise)
    return Sizes(groups.labels, tuple(int(c) for c in groups.counts), "zero-out")
