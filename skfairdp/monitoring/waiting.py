"""Queue of rows, some with late labels, in the order of the decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.monitoring.store import Document

# Groups of rows by number, decisions, and labels (NaN where unknown).
Rows = tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.float64]]


def binary(
    values: ArrayLike, name: str, length: int | None = None, *, missing: bool = False
) -> NDArray[np.float64]:
    """Column of 0 and 1, and of NaN where values may be missing."""
    found = np.asarray(values)
    if found.dtype == object and found.ndim == 1:
        inferred = pd.array(found.tolist())
        if pd.api.types.is_numeric_dtype(inferred.dtype):  # booleans as well
            found = inferred.to_numpy(dtype=np.float64, na_value=np.nan)
    fits = found.ndim == 1 and found.dtype.kind in "biuf"
    if not fits or not (np.isin(found, (0, 1)) | (missing & np.isnan(found))).all():
        raise ValueError(
            f"{name} must be one column of {'0, 1 or NaN' if missing else '0 and 1'} (1 is the "
            "positive outcome); translate other labels first. Nothing was used."
        )
    if length is not None and found.size != length:
        raise ValueError(f"{name} has {found.size} rows, where {length} were expected.")
    return found.astype(np.float64)


def wait(document: Document, rows: Rows, ids: Sequence[Hashable] | None) -> None:
    """Append rows to those that wait."""
    codes, decided, truth = rows
    names = [None] * len(codes) if ids is None else [_name(value) for value in ids]
    if len(names) != len(codes):
        raise ValueError(f"There are {len(codes)} rows and {len(names)} ids.")
    known = [row[0] for row in document["waiting"]] + names
    if any(name is not None and n > 1 for name, n in Counter(known).items()):
        raise ValueError("Some ids occur twice, or wait already; every row needs its own.")
    labels = [None if label != label else int(label) for label in truth.tolist()]
    document["waiting"] += [
        list(row) for row in zip(names, codes.tolist(), decided.tolist(), labels, strict=True)
    ]


def take_labels(document: Document, ids: Sequence[Hashable], truth: NDArray[np.float64]) -> None:
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


def settled(document: Document) -> Rows:
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
