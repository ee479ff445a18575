"""Public sizes: declared, taken from the rows, or bought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skfairdp.exceptions import PlanError, PrivacyWarning, warn_user
from skfairdp.foundation.figures import as_given, significant_down
from skfairdp.foundation.parameters import GROUP_SIZE, is_missing, plain_label
from skfairdp.privacy.noise import NoiseSource, noise_floor
from skfairdp.privacy.plan import Block, CountRelease, LaplaceSum, Plan, Segment

_MOST_STEPS = 10**8  # a day at a millisecond a step


@dataclass(frozen=True)
class Sizes:
    """Numbers of records that a plan is made for."""

    cells: tuple[Any, ...]
    counts: tuple[int, ...]  # Records of each cell, >= 1
    # "add-remove" when the counts are declared or were bought, "zero-out" when they were read off
    # the rows
    adjacency: str
    prior_epsilon: float = 0.0  # What buying the counts cost, in nats
    # Public numbers of groups and of class labels, on which a plan may depend too
    n_groups: int | None = None
    n_classes: int = 2

    @classmethod
    def of_all(cls, n: int, declared: int | None) -> Sizes:
        """One cell of all records, `declared` of them or the `n` rows that there are."""
        if declared is None:
            return cls(("all",), (n,), "zero-out")
        return cls(("all",), (int(declared),), "add-remove")

    @property
    def total(self) -> int:
        """Records in all cells."""
        return sum(self.counts)

    def batches(self, max_epochs: int, size: int, *sums: tuple[str, float, float]) -> Segment:
        """Passes in Poisson batches that every record is in with the same probability.

        `size`: expected records of a batch, which every sum is divided by. `sums`: name, largest
        norm of a record, and standard deviation of the noise, both before that division.
        """
        n, rate, weight = len(self.cells), size / self.total, 1.0 / size
        return Segment(
            steps=steps_for(max_epochs, self.total, size),
            rates=(rate,) * n,
            expected_sizes=(float(size),) if n == 1 else tuple(rate * c for c in self.counts),
            blocks=tuple(
                Block(name=name, max_norm=norm, weights=(weight,) * n, noise_std=std * weight)
                for name, norm, std in sums
            ),
        )

    def whole(
        self,
        *sums: tuple[str, float, float],
        weights: tuple[float, ...] | None = None,
        steps: int = 1,
        failure: float = 0.0,
    ) -> Segment:
        """Steps that every record is in; `sums` as in `batches`, each a weighted total."""
        n = len(self.cells)
        known = len(self.counts) == n  # else it is private who is in which cell
        weights = (1.0,) * n if weights is None else weights
        return Segment(
            steps=steps,
            rates=(1.0,) * n,
            expected_sizes=tuple(map(float, self.counts)) if known else (self.total / n,) * n,
            blocks=tuple(
                Block(name=name, max_norm=norm, weights=weights, noise_std=std)
                for name, norm, std in sums
            ),
            failure=failure,
        )

    def plan(
        self,
        *segments: Segment,
        counts: tuple[CountRelease, ...] = (),
        sums: tuple[LaplaceSum, ...] = (),
        delta: float,
        exact_noise: bool = False,
    ) -> Plan:
        """Plan releases about these records, with the price of bought counts."""
        return Plan(
            cells=self.cells,
            segments=segments,
            counts=counts,
            adjacency=self.adjacency,
            delta=float(delta),
            prior_epsilon=float(self.prior_epsilon),
            sums=sums,
            exact_noise=bool(exact_noise),
        )

    def check(self, plan: Plan, *, delta: float, exact_noise: bool = False) -> None:
        """Refuse a plan that was made for something else."""
        asked = self.plan(delta=delta, exact_noise=exact_noise)
        for name in ("cells", "adjacency", "delta", "prior_epsilon", "exact_noise"):
            stated, wanted = getattr(plan, name), getattr(asked, name)
            if stated != wanted:
                raise PlanError(
                    f"The plan states {name}={stated!r}, but was asked for with {wanted!r}: write "
                    "it with sizes.plan(..., delta=self.delta, exact_noise=self.exact_noise)."
                )


def check_delta(delta: float, n: int, *, public: bool = True) -> None:
    """Refuse a delta that is no protection for one of `n` records; messages show a public `n`."""
    if delta >= 1.0 / n:
        shown = f" = {significant_down(1.0 / n, 3)} for n = {n}" if public else " for n"
        limit = f"1/n{shown} records"
        raise ValueError(
            f"'delta' must be below {limit}; got {as_given(delta)}. A larger delta allows a whole "
            "record to be published."
        )
    if delta > 1.0 / (10.0 * n):
        limit = f"1/(10 n) = {significant_down(0.1 / n, 3)}" if public else "1/(10 n) for n records"
        warn_user(
            f"'delta' = {as_given(delta)} is above {limit}: with that probability the "
            "guarantee may fail. Set a smaller one.",
            PrivacyWarning,
        )


def expected_batch_size(batch_size: Any, n: int, most: int = 256, parts: int = 10) -> int:
    """Resolve the expected batch size; "auto" is ``min(most, ceil(n / parts))``."""
    if batch_size == "auto":
        return min(most, -(-n // parts))
    if batch_size > n:
        raise ValueError(
            f"'batch_size' must be at most the number of records, {n}; got {batch_size}."
        )
    return int(batch_size)


def steps_for(max_epochs: int, n: int, batch_size: int) -> int:
    """Number of steps of `max_epochs` passes, computed in integers."""
    steps = max_epochs * -(-n // batch_size)
    if steps > _MOST_STEPS:
        raise ValueError(
            f"'max_epochs' = {max_epochs} passes over {n} records in batches of {batch_size} are "
            f"{steps} steps, more than {_MOST_STEPS:g}: set 'batch_size' higher, 'max_epochs' or "
            "the declared sizes lower."
        )
    return steps


def check_group_sizes(group_sizes: Mapping[Any, Any]) -> dict[Any, int]:
    """Check a declared mapping from groups to numbers of records."""
    if not group_sizes:
        raise ValueError("'group_sizes' must name at least one group; got an empty mapping.")
    checked = {}
    for label, count in group_sizes.items():
        if is_missing(label):
            raise ValueError(
                f"'group_sizes' names a missing value, {label!r}, which is not a group; leave it "
                "out: rows without a group contribute nothing."
            )
        if not GROUP_SIZE.accepts(count):
            raise ValueError(
                f"'group_sizes' must map every group to {GROUP_SIZE.describe()}; got {count!r} for "
                f"the group {label!r}."
            )
        checked[plain_label(label)] = int(count)
    return checked


def noisy_sizes(
    exact: np.ndarray, cells: tuple[Any, ...], epsilon: float, noise: NoiseSource
) -> Sizes:
    """Buy group sizes with a discrete Laplace histogram.

    Every count is raised to `noise_floor`: a group that looks smaller than that would only raise
    the noise of the training for all groups.

    `exact` (n_cells,): number of rows of each cell; each record adds one to at most one count.
    """
    released = exact + noise.discrete_laplace(epsilon, len(cells))
    counts = tuple(np.maximum(released, noise_floor(epsilon)).tolist())
    return Sizes(tuple(cells), counts, "add-remove", prior_epsilon=float(epsilon))
