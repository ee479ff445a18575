"""Poisson batches: every record is drawn by its own coin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Batch", "PoissonSampler"]


@dataclass(frozen=True)
class Batch:
    """Rows of one Poisson batch. Its size is secret and must not leave the engine.

    Parameters
    ----------
    rows : ndarray of int64, shape (B,)
        Row numbers, cell after cell.
    sizes : tuple of int
        How many of the rows belong to each cell.
    """

    rows: np.ndarray
    sizes: tuple[int, ...]

    def spread(self, per_cell: tuple[float, ...]) -> np.ndarray:
        """Give every row the value of its cell, as an array of shape (B,)."""
        if len(per_cell) == 1:
            return np.full(len(self.rows), per_cell[0])
        return np.repeat(np.asarray(per_cell, dtype=np.float64), self.sizes)


class PoissonSampler:
    """Draw Poisson batches of several cells.

    Drawing a binomial number of distinct rows has the same law as tossing one coin
    for every row, and costs time in proportion to the batch, not to the data.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Cell of each row; rows with a negative code are never drawn.
    n_cells : int
        Number of cells; a cell may be empty.
    generator : numpy.random.Generator
        Source of the coins, seeded by the operating system unless the run is a
        reproducible test.
    """

    def __init__(self, codes: np.ndarray, n_cells: int, generator: np.random.Generator) -> None:
        self._members = tuple(np.flatnonzero(codes == cell) for cell in range(n_cells))
        self._generator = generator

    def draw(self, rates: tuple[float, ...]) -> Batch:
        """Draw one batch.

        Parameters
        ----------
        rates : tuple of float
            Probability that a row of each cell is drawn.

        Returns
        -------
        Batch
        """
        drawn = []
        for members, rate in zip(self._members, rates, strict=True):
            size = int(self._generator.binomial(len(members), rate))
            picked = self._generator.choice(len(members), size, replace=False, shuffle=False)
            drawn.append(members[picked])
        rows = drawn[0] if len(drawn) == 1 else np.concatenate(drawn)
        return Batch(rows, tuple(len(part) for part in drawn))

    def slots(self, size: int, n_slots: int) -> np.ndarray:
        """Draw a slot in ``range(n_slots)`` for each of `size` rows, independently."""
        return self._generator.integers(n_slots, size=size)
