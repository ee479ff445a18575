"""Minibatches that every teacher draws from its own shard."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

_STEPS_DRAWN_AHEAD = 64


def batches(
    shards: list[np.ndarray], generators: list[np.random.Generator], n_steps: int, batch_size: int
) -> Iterator[np.ndarray]:
    """Draw the minibatches of every teacher from its own shard by its own generator.

    A teacher walks through random orders of its shard, one after the other, so that all
    records come about equally often. The number of records in a batch is the same for
    all; a batch larger than the shard holds records more than once.

    `shards`: records of each shard, at least one. `n_steps`, `batch_size`: number of batches and
    of records in each. Yields (n_teachers * batch_size,): records of one step, teacher by
    teacher.
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
