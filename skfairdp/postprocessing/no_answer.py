"""The label that stands for "no answer" beside the labels of a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD = "abstained"


def abstention_marker(classes: NDArray, label: Any = "auto") -> tuple[Any, np.dtype]:
    """Choose or check the label of an abstention.

    "auto" takes "abstained" beside text; beside numbers −1, or the smallest class minus 1 where −1
    is a class, or the largest plus 1 where the dtype has no smaller number. Result: a Python scalar
    that is not a class, and a dtype that holds it and the classes.
    """
    known = classes.tolist()
    marker = _automatic(classes) if isinstance(label, str) and label == "auto" else label
    marker = marker.item() if isinstance(marker, np.generic) else marker
    if marker in known:
        raise ValueError(
            f"abstention_label={label!r} is not possible: {marker!r} is one of the classes, "
            f"{known!r}. Give a label that is none of them."
        )
    dtype = classes.dtype
    if dtype.kind in "US" and isinstance(marker, str | bytes):
        return marker, np.result_type(dtype, np.asarray(marker).dtype)
    try:
        held = np.array([marker], dtype=dtype).tolist() == [marker]
    except (OverflowError, TypeError, ValueError):
        held = False
    if not held:
        raise ValueError(
            f"abstention_label={label!r} is not possible: {marker!r} cannot be stored among labels "
            f"of dtype {dtype}. Give a label of the same type, or fit with labels of a type that "
            "has room for one more value, such as integers or text."
        )
    return marker, dtype


def _automatic(classes: NDArray) -> Any:
    kind = classes.dtype.kind
    if kind == "O" and all(type(label) is int for label in classes):
        return _automatic(classes.astype(np.int64))
    if kind == "b":
        return -1  # refused by the caller: two truth values leave no room
    if kind not in "iuf":
        return b"abstained" if kind == "S" else WORD
    lowest = np.iinfo(classes.dtype).min if kind in "iu" else -np.inf
    smallest, largest = classes.min().item(), classes.max().item()
    for candidate in (-1, smallest - 1):
        if candidate not in classes and candidate >= lowest:
            return candidate
    return largest + 1
