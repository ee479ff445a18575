"""Each record goes to training or hold-out by a draw of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from skfairdp.fairness.groups import Groups, encode_groups
from skfairdp.labels import count_rows, label_column
from skfairdp.privacy.noise import NoiseSource


@dataclass(frozen=True, eq=False)
class SearchRows:
    """Some of the rows; dropped when a search is done."""

    X: Any
    y: Any
    sensitive_features: Any
    groups: Groups

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.groups.codes)


@dataclass(frozen=True, eq=False)
class Divided:
    """Both parts, and the groups of all rows."""

    training: SearchRows
    held_out: SearchRows
    groups: tuple | None


def divide(
    X: Any, y: Any, sensitive_features: Any, holdout_fraction: float, source: NoiseSource
) -> Divided:
    """Assign every record to training or hold-out, by itself and in secret.

    A split of a fixed size would move other records when one is removed, and then nothing
    could be said of one record alone.

    `X` (n_rows, n_features): features. `y` (n_rows,): labels. `holdout_fraction`: chance of each
    record to be held out.
    """
    n_rows = count_rows(X)
    label_column(y, n_rows, declared=True)
    groups = Groups(("all",), np.zeros(n_rows, dtype=np.int64))
    if sensitive_features is not None:
        groups = encode_groups(sensitive_features, n_rows=n_rows)
    in_training = source.sampling.random(n_rows) >= holdout_fraction

    def part(index: NDArray[np.int64]) -> SearchRows:
        kept = [
            None if given is None else _safe_indexing(given, index)
            for given in (X, y, sensitive_features)
        ]
        return SearchRows(kept[0], kept[1], kept[2], Groups(groups.labels, groups.codes[index]))

    return Divided(
        part(np.flatnonzero(in_training)),
        part(np.flatnonzero(~in_training)),
        None if sensitive_features is None else groups.labels,
    )
