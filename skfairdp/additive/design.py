"""The columns of zeros and ones that an additive model is linear in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skfairdp.preprocessing.levels import OTHER, Categories, Intervals, Levels

# A column is shared by MERGED neighbouring bins, by MERGED times as many in the next layer, and so
# on while at least FEWEST columns remain: noise then averages where the function is smooth.
MERGED, FEWEST = 4, 4
# Euclidean norm of every row, the constant 1 of the intercept left out.
NORM = 4.0
# Cells of the values of each column of a pair; missing values may have one more.
SIDE = 4


@dataclass(frozen=True)
class Pair:
    """Two columns whose cells have inputs of their own.

    `columns`: their places. `cells`: of each column the cell of each level, a missing value last.
    `shares`: noisy share of the rows in each cell of each column.
    """

    columns: tuple[int, int]
    cells: tuple[tuple[int, ...], tuple[int, ...]]
    shares: tuple[tuple[float, ...], tuple[float, ...]]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of cells of each column."""
        first, second = self.cells
        return max(first) + 1, max(second) + 1

    def codes(self, levels: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
        """Cell of each row, from the levels of its columns."""
        first, second = (
            np.asarray(cells)[levels[column]]
            for cells, column in zip(self.cells, self.columns, strict=True)
        )
        return np.asarray(first * self.shape[1] + second)


def levels_of(X: object) -> tuple[tuple[str, Levels], ...]:
    """Read the levels of each column of a table off its dtypes.

    Raises ValueError: it is not a table of levels. Dtypes of other makers are refused, as the
    categories that pandas finds are those that occur in the rows.
    """
    found: list[tuple[str, Levels]] = []
    if isinstance(X, pd.DataFrame) and X.shape[1]:
        for name, dtype in X.dtypes.items():
            categories = getattr(dtype, "categories", None)
            if isinstance(categories, pd.IntervalIndex):
                level: Levels = Intervals(tuple(map(float, categories.left[1:])))
            elif categories is not None and OTHER in categories:
                level = Categories(tuple(categories))
            else:
                break
            if dtype != level.dtype():
                break
            found.append((str(name), level))
        else:
            return tuple(found)
    raise ValueError(
        "'X' is not a table of levels. Declare bounds=… (and categories=…) of its columns, or put "
        "a skfairdp.preprocessing.PublicBinner or a PrivateTableEncoder before the model in a "
        "Pipeline; both with encoding='levels'."
    )


class Design:
    """Positions of the levels of each column among the inputs of a linear net.

    `pairs`: of columns whose cells have an input each, after those of the columns. `most_pairs`:
    for how many there is room among the inputs; what is not used is 0 in every row.
    """

    def __init__(
        self, levels: Sequence[Levels], pairs: Sequence[Pair] = (), most_pairs: int = 0
    ) -> None:
        self.levels, self.pairs = tuple(levels), tuple(pairs)
        self._blocks: list[list[tuple[int, int, int]]] = []
        self.width = 0
        for level in self.levels:
            count, merged, blocks = level.count, 1, []
            while merged == 1 or (isinstance(level, Intervals) and count // merged >= FEWEST):
                size = -(-count // merged) + 1  # the last one is for a missing value
                blocks.append((merged, self.width, size))
                self.width += size
                merged *= MERGED
            self._blocks.append(blocks)
        self.n_inputs = self.width + most_pairs * (SIDE + 1) ** 2
        self._cells: list[tuple[int, int]] = []
        for pair in self.pairs:
            self._cells.append((self.width, math.prod(pair.shape)))
            self.width += math.prod(pair.shape)
        self.value = NORM / math.sqrt(sum(map(len, self._blocks)) + len(self.pairs))

    @property
    def finest(self) -> NDArray[np.int64]:
        """Inputs of the finest levels, column by column, that of a missing value last."""
        return np.concatenate([inputs[0] for inputs, _ in self.columns()][: len(self.levels)])

    @property
    def block_of_inputs(self) -> NDArray[np.int64]:
        """Number of the block, a column at one resolution or a pair, of each input."""
        sizes = [size for blocks in self._blocks for _, _, size in blocks]
        sizes += [size for _, size in self._cells]
        return np.repeat(np.arange(len(sizes)), sizes)

    def columns(self) -> Iterator[tuple[NDArray[np.int64], int]]:
        """Inputs (resolutions, levels) of each column's levels, finest first; and their number.

        After the columns, those of the cells of each pair.
        """
        for place, blocks in enumerate(self._blocks):
            inputs = [start + positions for start, positions in self._positions(place)]
            yield np.array(inputs), sum(size for _, _, size in blocks)
        for start, size in self._cells:
            yield start + np.arange(size)[None], size

    def codes(self, table: pd.DataFrame) -> Iterator[NDArray[np.unsignedinteger]]:
        """Level of each row, column by column; a missing value is after the last one.

        One byte each for up to 256 levels, a missing value included, two for more.
        """
        for place, level in enumerate(self.levels):
            found = table.iloc[:, place].cat.codes.to_numpy()
            codes = found.astype(np.min_scalar_type(level.count))
            codes[found < 0] = level.count
            yield codes

    def rows(self, table: pd.DataFrame) -> NDArray[np.float32]:
        """Inputs of the net: every row has as many entries as any other, all of one size."""
        return self.inputs(list(self.codes(table)))

    def inputs(self, levels: Sequence[NDArray[np.integer]]) -> NDArray[np.float32]:
        """Inputs of rows of these levels, column by column."""
        inputs = np.zeros((len(levels[0]), self.n_inputs), dtype=np.float32)
        at = np.arange(len(inputs))
        for place, codes in enumerate(levels):
            for start, positions in self._positions(place):
                inputs[at, start + positions[codes]] = self.value
        for (start, _), pair in zip(self._cells, self.pairs, strict=True):
            inputs[at, start + pair.codes(levels)] = self.value
        return inputs

    def contributions(self, weights: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Contribution of each level of each column to the output, a missing value last.

        `weights` (width,): those of the linear net.
        """
        return [
            self.value
            * np.sum([weights[start + at] for start, at in self._positions(place)], axis=0)
            for place in range(len(self.levels))
        ]

    def maps(self, weights: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Contribution of each cell of each pair to the output, of the shape of the pair."""
        return [
            self.value * weights[start : start + size].reshape(pair.shape)
            for (start, size), pair in zip(self._cells, self.pairs, strict=True)
        ]

    def _positions(self, place: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Input within its block of each level, a missing value last."""
        for merged, start, size in self._blocks[place]:
            levels = np.arange(self.levels[place].count) // merged
            yield start, np.append(levels, size - 1)
