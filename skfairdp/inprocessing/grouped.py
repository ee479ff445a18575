"""Base class of mechanisms that sample, clip or weigh by group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skfairdp.fairness.groups import Groups, groups_of_training
from skfairdp.inprocessing.budgeted import BudgetedClassifier
from skfairdp.inprocessing.gradient import GradientClassifier
from skfairdp.parameters import MAPPING, NONE, POSITIVE
from skfairdp.privacy.accounting.plan_cost import budget_guarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.sizes import Sizes, check_group_sizes, noisy_sizes


class SizedByGroup(BudgetedClassifier):
    """Template of a mechanism that is told, or buys, how large groups are.

    Parameters
    ----------
    group_sizes : mapping or None
        Declared number of records of each group. Fixes the groups (rows of others
        contribute nothing) and makes the guarantee one for adding or removing a
        record. None takes sizes and groups from the rows ("zero-out" adjacency).
    group_sizes_epsilon : float or None
        Part of `epsilon` that buys noisy group sizes instead.
    """

    group_sizes: Mapping[Any, int] | None = None
    group_sizes_epsilon: float | None = None

    _parameters = {"group_sizes": (MAPPING, NONE), "group_sizes_epsilon": (POSITIVE, NONE)}

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.group_sizes is not None and self.group_sizes_epsilon is not None:
            raise ValueError(
                "Set 'group_sizes' (declared) or 'group_sizes_epsilon' (bought), not both."
            )

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups | None:
        """Sort rows into the groups that were declared with their sizes, or that occur."""
        if sensitive_features is None:
            if self.group_sizes is not None:
                raise ValueError("'group_sizes' is set, but fit got sensitive_features=None.")
            return None
        known = None if self.group_sizes is None else tuple(check_group_sizes(self.group_sizes))
        groups = groups_of_training(sensitive_features, n, known)
        if known is None and len(groups.labels) < 2:
            raise ValueError(
                "'sensitive_features' must hold at least two groups; got one. Pass None to train "
                "without groups."
            )
        return groups

    def _declared_sizes(self) -> dict[Any, int]:
        sizes = check_group_sizes(self.group_sizes or {})
        total = sum(sizes.values())
        if self.dataset_size not in (None, total):
            raise ValueError(
                f"'dataset_size' = {self.dataset_size} must be the sum of 'group_sizes', {total}."
            )
        return sizes

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        """Settle the public sizes: declared, bought (and charged), or read off the rows."""
        if groups is None:
            return Sizes.of_all(n, self.dataset_size)
        if self.group_sizes is not None:
            return Sizes(groups.labels, tuple(self._declared_sizes().values()), "add-remove")
        if self.dataset_size is not None:
            raise ValueError(
                f"'dataset_size' = {self.dataset_size} declares no size of a group; with "
                "sensitive_features declare 'group_sizes', a mapping from every group to its "
                "number of records."
            )
        price = self.group_sizes_epsilon
        if price is None or self._free:  # without protection sizes are exact
            return Sizes(groups.labels, tuple(groups.counts.tolist()), "zero-out")
        stated = budget_guarantee(
            self.epsilon, self.delta, reproducible=noise.reproducible, protects=self._unit
        )
        self._charge(stated)  # for the whole fit, as its plan is made from what is bought
        return noisy_sizes(groups.counts, groups.labels, price, noise)


class GroupedClassifier(SizedByGroup, GradientClassifier):
    """Template of a mechanism whose cells are the groups.

    Parameters
    ----------
    dataset_size : int or None
        Declared number of records; must be the sum of `group_sizes` when both are given.

    Attributes
    ----------
    groups_ : tuple or None
        Groups of the plan.
    """

    dataset_size: int | None = None

    _needs_groups = "its sums are sampled, clipped or weighted by group"
