"""Choice of the pairs of columns that get inputs of their own, by noisy tables of all pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import chi2

from skfairdp.additive.design import SIDE, Design, Pair
from skfairdp.preprocessing.levels import Intervals, Levels, level_names

if TYPE_CHECKING:
    from skfairdp.engine.modules import CellInputs
    from skfairdp.engine.release import NoisyRelease, Rows
    from skfairdp.privacy.plan import Segment

Floats = NDArray[np.float64]

# Share of the budget, as one Gaussian release, that buys the tables.
PAIRS_SHARE = 0.05
MOST_PAIRS = 8
# Pairs are looked for among this number of columns, those of the largest entropy.
MOST_COLUMNS = 24
# Share of the chosen pairs that are due to noise alone, if tables were independent.
_BY_CHANCE = 0.2
# Missing values have a cell of their own where they are more than this share of the rows.
_OFTEN_MISSING = 0.02
# A cell has rows if their noisy count is above this number of its standard deviations.
_CLEARLY = 2.0
_STEPS, _FARTHEST = 20, 8.0  # of Newton's method; largest log-odds
_PRIOR = 100.0  # variance of log-odds or chances, so that Newton's method ends
_NOTHING = 1e-9  # a singular value that is 0 but for rounding


@dataclass(frozen=True)
class Link:
    """Function of the second label's chance that is a sum over columns where none interact.

    `chances`, `slopes`: chance and its derivative at values of the function. `at`: its value at a
    chance.
    """

    chances: Callable[[Floats], Floats]
    slopes: Callable[[Floats], Floats]
    at: Callable[[Floats], Floats]


def _expit(odds: Floats) -> Floats:
    return np.asarray(expit(np.clip(odds, -_FARTHEST, _FARTHEST)))


LOG_ODDS = Link(
    _expit,
    lambda odds: _expit(odds) * (1.0 - _expit(odds)),
    lambda shares: np.asarray(logit(np.clip(shares, 1e-3, 1.0 - 1e-3))),
)
# Of labels that are drawn with chances that are linear in a number.
CHANCES = Link(lambda means: np.clip(means, 0.0, 1.0), np.ones_like, lambda shares: shares)


def choose_pairs(
    release: NoisyRelease,
    segment: Segment,
    design: Design,
    counts: Floats,
    most: int,
    labels_of: Callable[[Rows], NDArray[np.bool_]],
    link: Link,
) -> tuple[list[Pair], list[Floats], list[Floats]]:
    """Release tables of all candidate pairs, and choose those that are not additive.

    `design`: of the columns. `counts`: noisy number of rows at each finest level. `labels_of`:
    label of each row, which depends on that row alone, or on a draw of its own. `link`: of the
    labels. Result: the pairs; of each the noisy number of rows in its cells, and a basis of its
    weights (`interactions`).
    """
    found = candidates(design, counts)
    (block,) = segment.blocks
    tables = release.tables(
        segment,
        lambda rows: _entries(rows, labels_of(rows), design, found),
        [2 * _size(pair) for pair in found],
    )
    std = block.noise_std / block.max_norm * math.sqrt(len(found))
    padded = np.zeros((len(found), SIDE + 1, SIDE + 1, 2))
    for place, (pair, table) in enumerate(zip(found, tables, strict=True)):
        first, second = pair.shape
        padded[place, :first, :second] = table.reshape(first, second, 2)
    evidence = surprises(padded, np.array([pair.shape for pair in found]), std, link)
    hidden = math.sqrt(2.0) * std  # deviation of the noise in the count of a cell
    pairs: list[Pair] = []
    cells: list[Floats] = []
    bases: list[Floats] = []
    for k in beyond_noise(evidence):
        counted = tables[k].reshape(-1, 2).sum(axis=1)
        own = np.maximum(counted, hidden)
        free = interactions(own.reshape(found[k].shape), counted > _CLEARLY * hidden)
        if free.shape[1] and len(pairs) < most:
            pairs.append(found[k])
            cells.append(own)
            bases.append(free)
    return pairs, cells, bases


def beyond_noise(evidence: Floats) -> list[int]:
    """Places of log-probabilities that Benjamini and Hochberg's procedure takes, smallest first."""
    order = np.argsort(evidence, kind="stable")
    limits = np.log(_BY_CHANCE * np.arange(1, len(order) + 1) / len(order))
    below = np.flatnonzero(evidence[order] <= limits)
    return [int(k) for k in order[: below[-1] + 1 if len(below) else 0]]


def interactions(counts: Floats, seen: NDArray[np.bool_]) -> Floats:
    """Orthonormal basis (cells, dimensions) of weights that say nothing about one column alone.

    Their means over the rows of each line, and of each column, of the table are 0, and so are
    weights of cells that are not `seen`. `counts` (first, second): number of rows in each cell.
    """
    rows = np.where(seen.reshape(counts.shape), counts, 0.0)
    first, second = rows.shape
    of_lines = np.eye(first)[:, :, None] * rows
    of_columns = np.eye(second)[:, None, :] * rows
    sums = np.concatenate([of_lines, of_columns]).reshape(first + second, -1) / counts.max()
    _, sizes, axes = np.linalg.svd(np.concatenate([sums, np.eye(counts.size)[~seen]]))
    return np.asarray(axes[np.sum(sizes > _NOTHING) :].T * seen[:, None])


def candidates(design: Design, counts: Floats) -> list[Pair]:
    """Pairs of the columns with the largest entropy of their cells, by noisy counts."""
    ends = np.cumsum([level.count + 1 for level in design.levels])
    cells, shares, entropies = [], [], []
    for level, own in zip(design.levels, np.split(np.maximum(counts, 0.0), ends[:-1]), strict=True):
        cells.append(cells_of(level, own))
        share = np.bincount(cells[-1], own) / max(own.sum(), 1.0)
        shares.append(tuple(share.tolist()))
        entropies.append(-float(np.sum(share * np.log(np.maximum(share, 1e-300)))))
    order = np.argsort(-np.array(entropies), kind="stable")[:MOST_COLUMNS]
    pairs = [
        Pair((first, second), (cells[first], cells[second]), (shares[first], shares[second]))
        for first, second in itertools.combinations(sorted(map(int, order)), 2)
    ]
    # One is released in any case, as the plan says; of one row or column it is never chosen.
    return [pair for pair in pairs if min(pair.shape) > 1] or pairs[:1]


def cells_of(level: Levels, counts: Floats) -> tuple[int, ...]:
    """Cell of each level of a column, by noisy counts of the levels, a missing value last.

    Intervals: parts with about as many rows. Categories: the most frequent, and all others.
    """
    if isinstance(level, Intervals):
        known = counts[:-1]
        middle = (np.cumsum(known) - 0.5 * known) / max(float(known.sum()), 1.0)
        cells = np.minimum((SIDE * middle).astype(np.int64), SIDE - 1)
        often = counts[-1] > _OFTEN_MISSING * counts.sum()
        cells = np.append(cells, SIDE if often else SIDE - 1)
    else:
        cells = np.full(len(counts), SIDE - 1)
        cells[np.argsort(-counts, kind="stable")[: SIDE - 1]] = np.arange(
            min(SIDE - 1, len(counts))
        )
    return tuple(np.unique(cells, return_inverse=True)[1].tolist())


def _size(pair: Pair) -> int:
    return math.prod(pair.shape)


def second_labels(rows: Rows) -> NDArray[np.bool_]:
    """Whether each row has the second label."""
    return np.asarray(rows.targets[0].cpu().numpy().reshape(-1) > 0.5)


def _entries(
    rows: Rows, labels: NDArray[np.bool_], design: Design, pairs: Sequence[Pair]
) -> Iterator[NDArray[np.int64]]:
    """Entry of each row in the table (cell, label) of each pair."""
    X = rows.X.cpu().numpy()
    columns = zip(design.levels, design.columns(), strict=True)
    starts = [(int(inputs[0, 0]), level.count + 1) for level, (inputs, _) in columns]
    levels = [X[:, start : start + size].argmax(axis=1) for start, size in starts]
    for pair in pairs:
        yield 2 * pair.codes(levels) + labels


def cell_inputs(design: Design) -> CellInputs:
    """Module that fills in the inputs of a design's pairs."""
    from skfairdp.engine.modules import CellInputs

    cells = np.zeros((2, len(design.pairs), design.n_inputs))
    columns = [inputs[0] for inputs, _ in design.columns()]
    for place, pair in enumerate(design.pairs):
        for side in (0, 1):
            cells[side, place, columns[pair.columns[side]]] = pair.cells[side]
    start = design.width - sum(map(_size, design.pairs))
    shapes = [pair.shape for pair in design.pairs]
    return CellInputs(cells, shapes, start, design.value)


def cell_names(level: Levels, cells: Sequence[int], column: str) -> list[str]:
    """Names of the cells of a column: ranges of numbers, or categories."""
    if isinstance(level, Intervals):
        edges = zip(level.edges, cells[:-2], cells[1:-1], strict=True)
        ends = tuple(edge for edge, left, right in edges if left != right)
        return level_names(Intervals(ends).dtype(), column)[: max(cells) + 1]
    names = level_names(level.dtype(), column)
    inside = [
        [name for name, own in zip(names, cells, strict=True) if own == cell]
        for cell in range(max(cells) + 1)
    ]
    return [own[0] if len(own) == 1 else f"{len(own)} others" for own in inside]


def surprises(
    tables: Floats, shapes: NDArray[np.int64], std: float, link: Link = LOG_ODDS
) -> Floats:
    """Log-probability that a table without an interaction deviates as much as each does.

    Of Pearson's statistic, whose variances include those of the noise, if the `link` is the sum of
    a number for each row and one for each column.

    `tables` (n, first, second, 2): noisy counts of both labels, zeros outside of the `shapes`
    (n, 2). `std`: of the noise in each of them.
    """
    n, first, second, _ = tables.shape
    inside = np.arange(first)[None, :, None] < shapes[:, 0, None, None]
    inside = (inside & (np.arange(second)[None, None] < shapes[:, 1, None, None])).reshape(n, -1)
    zeros, ones = np.moveaxis(tables.reshape(n, -1, 2), 2, 0)
    rows = np.where(inside, np.maximum(np.maximum(zeros, 0.0) + np.maximum(ones, 0.0), 1.0), 0.0)
    left, variances, fitted = _left_by_columns(zeros, ones, rows, std, (first, second), link)
    statistics = np.sum(np.where(inside, left**2 / np.maximum(variances, 1e-12), 0.0), axis=1)
    # Rows and columns of the table in which all is noise fit nothing.
    free = np.maximum(np.prod(shapes, axis=1) - fitted, np.prod(shapes - 1, axis=1))
    # Where a statistic is so large that the probability is 0, the larger one is the smaller.
    logs = np.where(np.isfinite(logs := chi2.logsf(statistics, free)), logs, -1e4 - statistics)
    return np.where(np.all(shapes > 1, axis=1), logs, 0.0)


def _left_by_columns(
    zeros: Floats, ones: Floats, rows: Floats, std: float, shape: tuple[int, int], link: Link
) -> tuple[Floats, Floats, Floats]:
    """Second labels of each cell beyond those of additive columns, and their variances.

    The sums of the `link` fit all cells best, in view of both noises, by Newton's method. Third
    result: how many numbers are fitted, as the data say them and not the prior.
    `zeros`, `ones`, `rows` (n, first * second).
    """
    first, second = shape
    units = [np.repeat(np.eye(first), second, axis=0), np.tile(np.eye(second), (first, 1))]
    inputs = np.concatenate(units, axis=1)
    centre = np.zeros((len(ones), first + second))
    share = ones.sum(axis=1) / np.maximum((zeros + ones).sum(axis=1), 1.0)
    centre[:, :first] = link.at(share)[:, None]
    weights = centre.copy()
    for _ in range(_STEPS):
        left, variances, bend = _left(zeros, ones, rows, std, weights @ inputs.T, link)
        trust = bend / np.maximum(variances, 1e-12)
        slopes = (trust * left) @ inputs - (weights - centre) / _PRIOR
        told = np.einsum("nc,ci,cj->nij", trust * bend, inputs, inputs)
        curvature = told + np.eye(first + second) / _PRIOR
        step = np.linalg.solve(curvature, slopes[:, :, None])[:, :, 0]
        weights += np.clip(step, -2.0, 2.0)
    left, variances, _ = _left(zeros, ones, rows, std, weights @ inputs.T, link)
    return left, variances, np.trace(np.linalg.solve(curvature, told), axis1=1, axis2=2)


def _left(
    zeros: Floats, ones: Floats, rows: Floats, std: float, sums: Floats, link: Link
) -> tuple[Floats, Floats, Floats]:
    """Second labels beyond those of sums, their variances, and their derivatives by the sums."""
    chances = link.chances(sums)
    noise = std**2 * ((1.0 - chances) ** 2 + chances**2)
    variances = rows * chances * (1.0 - chances) + noise
    return (1.0 - chances) * ones - chances * zeros, variances, rows * link.slopes(sums)
