"""What mechanisms share that sample, clip or weigh by group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skfairdp.fairness.groups import Groups
from skfairdp.inprocessing.fairdp.plan import fairdp_groups, fairdp_sizes
from skfairdp.inprocessing.gradient import GradientClassifier
from skfairdp.parameters import MAPPING, NONE, POSITIVE
from skfairdp.privacy.accounting.plan_cost import budget_guarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.sizes import Sizes


class GroupedClassifier(GradientClassifier):
    """Template of a mechanism whose cells are the groups.

    Sizes of groups are declared (``group_sizes``), bought (``group_sizes_epsilon``) or
    taken from the rows. Without groups there is one cell.

    Parameters
    ----------
    dataset_size : int or None
        Declared number of records, for a fit without groups; must be the sum of
        `group_sizes` when both are given.
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

    _parameters = {"group_sizes": (MAPPING, NONE), "group_sizes_epsilon": (POSITIVE, NONE)}

    dataset_size: int | None
    group_sizes: Mapping[Any, int] | None
    group_sizes_epsilon: float | None

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.group_sizes is not None and self.group_sizes_epsilon is not None:
            raise ValueError(
                "Set 'group_sizes' (declared) or 'group_sizes_epsilon' (bought), not both."
            )

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups | None:
        return fairdp_groups(sensitive_features, n, self.group_sizes)

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        if self.group_sizes_epsilon is not None and groups is not None:
            # The sizes that the plan is made from are bought first, and charged with all the rest.
            self._charge(
                budget_guarantee(self.epsilon, self.delta, reproducible=noise.reproducible)
            )
        return fairdp_sizes(
            groups,
            n,
            dataset_size=self.dataset_size,
            group_sizes=self.group_sizes,
            group_sizes_epsilon=self.group_sizes_epsilon,
            noise=noise,
            free=self._free,
        )

    @property
    def _free(self) -> bool:
        """Whether this is a run without noise, for comparison."""
        return self.epsilon is not None and math.isinf(self.epsilon)
