"""Answers of models that draw from NumPy's shared random numbers, checked by drawing them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SINGLE = 200  # rows that are asked by themselves; the others in a few parts


def replayed_answers(
    ask: Callable[[NDArray[np.int64]], NDArray[Any]], rows: NDArray[np.int64], calls: int
) -> NDArray[Any] | None:
    """Ask for all rows in one call; None if the answers are not those of rows by themselves.

    The call is repeated with the same random numbers: `SINGLE` rows one at a time, the others in
    `calls` parts. If no answer changes, a row's answer depends on that row and on its own draws,
    which follow each other in the order of the rows. The derivation is in
    docs/theory/certificate.md, "Check that the answer is a function of the row".

    `ask`: answers to rows by their positions.
    """
    if len(rows) <= SINGLE + calls:
        return None
    # Neighbours of the table are in different parts, and nobody has the same company twice.
    order = np.concatenate([np.arange(start, len(rows), calls) for start in range(calls)])
    order = np.roll(order, -len(rows) // 3)
    single = np.array_split(rows[order[:SINGLE]], SINGLE)
    parts = [*single, *np.array_split(rows[order[SINGLE:]], calls)]
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    together = ask(rows[order])
    np.random.set_state(before)  # noqa: NPY002
    apart = np.concatenate([ask(part) for part in parts])
    if len(together) != len(rows) or not np.array_equal(together, apart):
        return None
    answers = np.empty_like(together)
    answers[order] = together
    return answers
