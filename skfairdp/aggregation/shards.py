"""Disjoint shards of private rows, one for each teacher."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

_STEPS_DRAWN_AHEAD = 64


def assign_shards(n_rows: int, n_teachers: int, generator: np.random.Generator) -> np.ndarray:
    """Give every record a shard by its own uniform draw.

    A cut of a permutation (``array_split``, k folds) moves other records when one
    leaves, so that one record touches every teacher. Here the record that leaves takes
    its own draw along, and one teacher changes. Shards are of unequal size, and some may
    be empty.

    Parameters
    ----------
    n_rows : int
        Number of records, at least 0.
    n_teachers : int
        Number of shards, at least 1.
    generator : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    ndarray of int64, shape (n_rows,)
        Shard of each record, in [0, n_teachers).

    Raises
    ------
    ValueError
        `n_teachers` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.aggregation import assign_shards
    >>> shards = assign_shards(1000, 10, np.random.default_rng(0))
    >>> shards.shape, int(shards.min()), int(shards.max())
    ((1000,), 0, 9)
    """
    if n_teachers < 1:
        raise ValueError(f"'n_teachers' must be at least 1; got {n_teachers}.")
    return generator.integers(0, n_teachers, size=n_rows, dtype=np.int64)


def rows_by_shard(shards: np.ndarray, usable: np.ndarray, n_teachers: int) -> list[np.ndarray]:
    """List the positions of the usable records of every shard, in their order."""
    kept = np.flatnonzero(usable)
    order = np.argsort(shards[kept], kind="stable")
    sizes = np.bincount(shards[kept], minlength=n_teachers)
    return np.split(kept[order], np.cumsum(sizes)[:-1])


def teacher_generator(seed: int, index: int, *purpose: int) -> np.random.Generator:
    """Start the random stream of one teacher, independent of the others."""
    return np.random.default_rng([seed, index, *purpose])


def batches(
    shards: list[np.ndarray], generators: list[np.random.Generator], n_steps: int, batch_size: int
) -> Iterator[np.ndarray]:
    """Draw the minibatches of every teacher from its own shard by its own generator.

    A teacher walks through random orders of its shard, one after the other, so that all
    records come about equally often. The number of records in a batch is the same for
    all; a batch larger than the shard holds records more than once.

    Yields (n_teachers * batch_size,): records of one step, teacher by teacher.
    """
    for start in range(0, n_steps, _STEPS_DRAWN_AHEAD):
        steps = min(_STEPS_DRAWN_AHEAD, n_steps - start)
        length = steps * batch_size
        table = np.empty((steps, len(shards), batch_size), dtype=np.int64)
        for index, (own, generator) in enumerate(zip(shards, generators, strict=True)):
            orders = np.broadcast_to(own, (math.ceil(length / len(own)), len(own)))
            walk = generator.permuted(orders, axis=1).reshape(-1)[:length]
            table[:, index] = walk.reshape(steps, batch_size)
        yield from table.reshape(steps, -1)
