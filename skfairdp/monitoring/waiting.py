"""Rows whose labels come late: they are used in the order of the decisions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["settled", "take_labels", "wait"]


def wait(
    document: dict[str, Any],
    codes: NDArray[np.int64],
    decided: NDArray[np.int8],
    truth: NDArray[np.float64],
    ids: Sequence[Hashable] | None,
) -> None:
    """Append rows to those that wait."""
    names = [None] * len(codes) if ids is None else [_name(value) for value in ids]
    if len(names) != len(codes):
        raise ValueError(f"There are {len(codes)} rows and {len(names)} ids.")
    known = [row[0] for row in document["waiting"] if row[0] is not None]
    given = [name for name in names if name is not None]
    twice = len(given) - len(set(given)) or set(given) & set(known)
    if twice:
        raise ValueError("Some ids occur twice, or wait already; every row needs its own.")
    labels = [None if label != label else int(label) for label in truth.tolist()]
    document["waiting"] += [
        list(row) for row in zip(names, codes.tolist(), decided.tolist(), labels, strict=True)
    ]


def take_labels(
    document: dict[str, Any], ids: Sequence[Hashable], truth: NDArray[np.float64]
) -> None:
    """Write labels to rows that wait; one that will never be known takes its row out."""
    rows = {row[0]: row for row in document["waiting"] if row[0] is not None and row[3] is None}
    names = [_name(value) for value in ids]
    strangers = [name for name in names if name not in rows]
    if strangers or len(set(names)) < len(names):
        raise ValueError(
            f"{len(strangers)} of the ids, e.g. {strangers[:1]}, belong to no row that waits for a "
            "label, or an id occurs twice. Nothing was used."
        )
    for name, label in zip(names, truth.tolist(), strict=True):
        if label != label:
            rows[name][1] = -1
        rows[name][3] = 0 if label != label else int(label)


def settled(
    document: dict[str, Any],
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.float64]]:
    """Take out the rows at the head of the queue whose labels are known.

    Whether a label comes early may depend on what it is; so a row waits for all before it.
    """
    queue = document["waiting"]
    n = next((i for i, row in enumerate(queue) if row[3] is None), len(queue))
    head, document["waiting"] = queue[:n], queue[n:]
    columns = np.array([row[1:] for row in head], dtype=np.int64).reshape(n, 3).T
    return columns[0], columns[1].astype(np.int8), columns[2].astype(np.float64)


def _name(value: Hashable) -> str | int:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, str | int):
        raise ValueError(f"ids must be texts or whole numbers; got a {type(plain).__name__}.")
    return plain
