"""The published sequential parity filter, to reproduce published figures and nothing else."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.exceptions import SkfairdpError
from skfairdp.fairness.groups import encode_groups

__all__ = ["SequentialParityFilter"]


class SequentialParityFilter:
    """Pre-processor that admits records one by one while a label's rate stays even.

    A record of group z and label k is kept while fewer than `cold_start` records of z
    were kept, and afterwards if the share of k among the kept records of z, this one
    included, is at most `tolerance` above its share among the kept records of the other
    groups.

    **No privacy statement holds for what follows it.** Whether a record is kept depends
    on all records before it: among labels and groups (group, label) 00 01 10 11 00 10 00
    00 00 with tolerance 0.2 and cold start 2 all nine are kept; without the sixth only
    the first five are. The published factor K on epsilon rests on at most K changes. Use
    `PrivateThinningClassifier`.

    `tolerance`: the margin gamma, in [0, 1]. `cold_start`: the count M, >= 1.

    References
    ----------
    The demographic-parity pre-processor of Yaghini et al., "Learning to Walk Impartially
    on the Pareto Frontier of Fairness, Privacy, and Utility", 2023 (arXiv 2302.09183).

    Examples
    --------
    >>> from skfairdp.preprocessing.sequential_filter import SequentialParityFilter
    >>> parity = SequentialParityFilter(tolerance=0.2, cold_start=2)
    >>> parity.select(groups=[0, 0, 1, 1, 0, 1, 0, 0, 0], labels=[0, 1, 0, 1, 0, 0, 0, 0, 0])
    array([ True,  True,  True,  True,  True,  True,  True,  True,  True])
    """

    def __init__(self, *, tolerance: float, cold_start: int) -> None:
        if not 0.0 <= tolerance <= 1.0:
            raise ValueError(f"'tolerance' must be a number in [0, 1]; got {tolerance!r}.")
        if cold_start < 1:
            raise ValueError(f"'cold_start' must be an integer >= 1; got {cold_start!r}.")
        self.tolerance = tolerance
        self.cold_start = cold_start

    def select(self, groups: ArrayLike, labels: ArrayLike) -> NDArray[np.bool_]:
        """Decide which records of a stream are kept.

        `groups`, `labels` (n,): in the order of the stream. Result (n,).
        """
        values = np.asarray(labels)
        z = encode_groups(groups, n_rows=len(values)).codes
        k = np.unique(values, return_inverse=True)[1]
        counts = np.zeros((z.max(initial=0) + 1, k.max(initial=0) + 1), dtype=np.int64)
        kept = np.zeros(len(values), dtype=bool)
        for i, (group, label) in enumerate(zip(z.tolist(), k.tolist(), strict=True)):
            kept[i] = self._admits(counts, group, label)
            counts[group, label] += kept[i]
        return kept

    def _admits(self, counts: NDArray[np.int64], group: int, label: int) -> bool:
        own = counts[group]
        if own.sum() < self.cold_start:
            return True
        others = counts.sum(axis=0) - own
        if others.sum() == 0:
            return True
        gap = (own[label] + 1) / (own.sum() + 1) - others[label] / others.sum()
        return bool(gap <= self.tolerance)

    def certify(self, *_: object, **__: object) -> NoReturn:
        """Refuse: one record can change any number of decisions."""
        raise SkfairdpError(
            "SequentialParityFilter has no privacy guarantee: removing one record can change the "
            "fate of any number of later ones, and the published factor on epsilon does not hold. "
            "It exists to reproduce published figures; train with PrivateThinningClassifier."
        )
