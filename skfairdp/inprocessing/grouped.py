"""Base class of mechanisms that sample, clip or weigh by group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skfairdp.exceptions import PlanError
from skfairdp.foundation.parameters import MAPPING, NONE, POSITIVE
from skfairdp.inprocessing.budgeted import BudgetedClassifier
from skfairdp.inprocessing.gradient import GradientClassifier
from skfairdp.privacy.noise import NoiseSource, noise_floor
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes, check_group_sizes, noisy_sizes
from skfairdp.receipts import RowFacts
from skfairdp.records.groups import Groups, groups_of_training


class SizedByGroup(BudgetedClassifier):
    """Template of a mechanism for which group sizes are declared or bought.

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
                raise ValueError(
                    "'group_sizes' is set, but fit got sensitive_features=None: pass the group of "
                    "each row, or leave 'group_sizes' out."
                )
            return None
        known = None if self.group_sizes is None else tuple(check_group_sizes(self.group_sizes))
        groups = groups_of_training(sensitive_features, n, known)
        self._refuse_one(groups)
        return groups

    def _refuse_one(self, groups: Groups) -> None:
        if self.group_sizes is None and len(groups.labels) < 2:
            raise ValueError(
                "'sensitive_features' must hold at least two groups; got one. Pass None to train "
                "without groups."
            )

    def _declared_sizes(self) -> dict[Any, int]:
        sizes = check_group_sizes(self.group_sizes or {})
        total = sum(sizes.values())
        if self.dataset_size not in (None, total):
            raise ValueError(
                f"'dataset_size' = {self.dataset_size} must be the sum of 'group_sizes', {total}."
            )
        return sizes

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        """Settle the public sizes: declared, or read off the rows; none that are bought."""
        if self._buys(groups):
            raise PlanError(
                "Group sizes are bought after they are charged: call _settled, which does both."
            )
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
        return Sizes(groups.labels, tuple(groups.counts.tolist()), "zero-out")

    def _buys(self, groups: Groups | None) -> bool:
        # Without protection sizes are exact.
        return (
            groups is not None and self.group_sizes_epsilon is not None and self.epsilon != np.inf
        )

    def _bought_sizes(self, groups: Groups | None, noise: NoiseSource) -> Sizes:
        assert groups is not None
        assert self.group_sizes_epsilon is not None
        return noisy_sizes(groups.counts, groups.labels, self.group_sizes_epsilon, noise)

    def _expected_plan(self, facts: RowFacts, noise: NoiseSource) -> Plan | None:
        assert facts.groups is not None
        price = float(self.group_sizes_epsilon or 0.0)
        counts = np.maximum(facts.groups.counts, noise_floor(price)).tolist()
        sizes = Sizes(facts.groups.labels, tuple(counts), "add-remove", prior_epsilon=price)
        return self._priced_for(facts, noise, sizes).plan

    def _facts_of_fit(self, facts: RowFacts) -> RowFacts:
        facts = super()._facts_of_fit(facts)
        if facts.groups is None and self.group_sizes is not None:
            raise ValueError("'group_sizes' is set: name the groups in 'groups' too.")
        if facts.groups is not None:
            self._refuse_one(facts.groups)
        return facts


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
