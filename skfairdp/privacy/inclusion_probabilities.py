"""Inclusion probability of each record, from a released table of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.foundation.parameters import SHARE
from skfairdp.privacy.noise import NoiseSource, noise_floor

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SamplingRates:
    """The probability of each (group, label) cell that one of its records is used.

    Made from public or released counts alone, so it costs no privacy. Every record is
    used or not by its own draw: adding or removing one changes nothing about the others.

    Examples
    --------
    >>> from skfairdp.privacy.inclusion_probabilities import SamplingRates
    >>> rates = SamplingRates.equal_label_rates([[50, 50], [90, 10]], ("a", "b"), (0, 1))
    >>> [[round(rate, 3) for rate in row] for row in rates.rates]
    [[1.0, 0.429], [0.259, 1.0]]
    >>> rates.group_sizes
    {'a': 71, 'b': 33}
    """

    groups: tuple[Any, ...]
    classes: tuple[Any, ...]  # Class labels
    # (n_groups, n_classes): the counts, >= 1, that the rates were made from
    counts: tuple[tuple[int, ...], ...]
    rates: tuple[tuple[float, ...], ...]  # (n_groups, n_classes): probabilities in [0, 1]

    def __post_init__(self) -> None:
        shape = (len(self.groups), len(self.classes))
        for name in ("counts", "rates"):
            got = np.shape(getattr(self, name))
            if got != shape:
                raise ValueError(
                    f"'{name}' has shape {got}; {shape[0]} groups and {shape[1]} classes need "
                    f"{shape}."
                )
        if np.min(self.counts) < 1:
            raise ValueError(
                f"'counts' must be at least 1; got {np.min(self.counts)}: raise noisy counts to a "
                "floor."
            )
        if not (np.min(self.rates) >= 0.0 and np.max(self.rates) <= 1.0):
            raise ValueError(
                "'rates' must be probabilities in [0, 1]; got numbers from "
                f"{np.min(self.rates):g} to {np.max(self.rates):g}."
            )

    @classmethod
    def equal_label_rates(
        cls,
        table: ArrayLike,
        groups: Sequence[Any],
        classes: Sequence[Any],
        *,
        tolerance: float = 0.0,
        minimum_rate: float = 0.0,
        epsilon: float = math.inf,
    ) -> SamplingRates:
        """Find rates after which all groups have nearly the same label rates.

        Every group's label distribution moves on a straight line towards the pooled
        one, until no two groups differ by more than `tolerance` in the rate of any
        class; each group then keeps as many records as that allows.

        `table` (n_groups, n_classes): public or released counts; noisy ones may be negative.
        `tolerance`: largest difference in a class's rate between two groups. `minimum_rate`: lower
        limit of every probability; above 0 it may leave a larger difference. `epsilon`: what the
        table cost, see `noise_floor`; infinity for exact counts, which are raised to 1.
        """
        for name, value in (("tolerance", tolerance), ("minimum_rate", minimum_rate)):
            if not SHARE.accepts(value):
                raise ValueError(f"{name!r} must be {SHARE.describe()}; got {value!r}.")
        exact = np.asarray(table, dtype=np.float64).reshape(len(groups), len(classes))
        counts = np.maximum(exact, noise_floor(epsilon))
        own = counts / counts.sum(axis=1, keepdims=True)
        pooled = counts.sum(axis=0) / counts.sum()
        gap = float(np.ptp(own, axis=0).max())
        rates = np.ones_like(counts)
        if gap > tolerance:
            goal = pooled + tolerance / gap * (own - pooled)
            enough = counts / goal  # group size at which a cell needs all its records
            rates = (enough.min(axis=1, keepdims=True) / enough).clip(minimum_rate)
        return cls(tuple(groups), tuple(classes), _nested(counts.astype(np.int64)), _nested(rates))

    @property
    def group_sizes(self) -> dict[Any, int]:
        """Records of each group that are used, on average, if the counts are right; >= 1."""
        expected = (np.asarray(self.counts) * np.asarray(self.rates)).sum(axis=1)
        sizes = (max(1, round(float(size))) for size in expected)
        return dict(zip(self.groups, sizes, strict=True))

    @property
    def total(self) -> int:
        """Records that the counts speak of."""
        return int(np.sum(self.counts))

    def of(self, groups: Codes, labels: Codes) -> Floats:
        """Look up the probability of every record by its codes; 0 where one is negative."""
        found = np.asarray(self.rates)[groups, labels]
        return np.where((groups >= 0) & (labels >= 0), found, 0.0)

    def keep(self, groups: Codes, labels: Codes, uniforms: Floats) -> NDArray[np.bool_]:
        """Decide for every record, by a secret uniform draw of its own, whether it is used."""
        return np.asarray(uniforms < self.of(groups, labels))


def release_table(
    groups: Codes, labels: Codes, shape: tuple[int, int], epsilon: float, noise: NoiseSource
) -> Codes:
    """Release a (group x label) table with discrete Laplace noise; counts may be negative.

    Every record adds one to at most one count; one with a negative code is in no cell.
    """
    inside = (groups >= 0) & (labels >= 0)
    cells = groups[inside] * shape[1] + labels[inside]
    exact = np.bincount(cells, minlength=shape[0] * shape[1]).astype(np.int64)
    noisy: Codes = exact + noise.discrete_laplace(epsilon, exact.size)
    return noisy.reshape(shape)


def _nested(values: NDArray[Any]) -> tuple[Any, ...]:
    return tuple(tuple(row) for row in values.tolist())
