"""Tables of scores by group: their plan, their release, and the tolerances that they keep."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skfairdp.inprocessing.fair_numbers.transport import Scores, band, shifts
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums, prefix_norm
from skfairdp.privacy.plan import GRID_FAILURE, Segment
from skfairdp.privacy.sizes import Sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from skfairdp.engine.release import NoisyRelease, Rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DISTRIBUTIONS, MEANS = "distribution_gap", "mean_gap"
# Even cells between the bounds of the target. Noise on counts up to a cell's end hardly grows with
# their number.
CELLS = 64
ENDS = np.linspace(-1.0, 1.0, CELLS + 1)
# How many times a blind model moves scores by what it expects of the group's, in units of the
# number that would make up for what it does not know of the group.
MULTIPLIERS = (0.25, 0.5, 0.75, 1.0)
# How the tables share what they get, and how many releases they have.
_AWARE = {"scores by group": (1.0, 1)}
_BLIND = {
    "certainty": (0.05, 1),
    "scores by group": (0.3, 1),
    "moved scores by group": (0.65, len(MULTIPLIERS)),
}
# Chance that a gap is above the tolerance that is said to be kept; a fifth of it is for what is not
# of first order in the noise over a group's size.
ERROR = 0.1
_DRAWS = 4_000


def plan_tables(sizes: Sizes, multiplier: float, *, blind: bool) -> list[Segment]:
    """Plan all tables, which together are about one Gaussian release of `multiplier`."""
    segments, norm = [], prefix_norm(CELLS)
    for name, (share, steps) in (_BLIND if blind else _AWARE).items():
        noise = multiplier * math.sqrt(steps / share) * norm
        failure = GRID_FAILURE if noise > 0.0 else 0.0
        segments.append(sizes.whole((name, norm, noise), steps=steps, failure=failure))
    return segments


def released(
    release: NoisyRelease,
    segment: Segment,
    numbers: Callable[[Rows], Floats],
    n_groups: int | None = None,
) -> Floats:
    """Release how many numbers in [-1, 1] are up to each cell's end, of all rows or by group."""

    def entries(rows: Rows) -> tuple[Ints, Ints]:
        found = np.clip((numbers(rows) + 1.0) * (0.5 * CELLS), 0, CELLS - 1).astype(np.int64)
        if n_groups is not None:
            found += CELLS * rows.targets[1].long().cpu().numpy()
        return found, np.ones_like(found)

    shape = (1 if n_groups is None else n_groups, CELLS)
    return release.prefix_sums(segment, entries, shape)[0]


def unit_of(certainty: Floats, shares: Floats) -> float:
    """How many times expected moves must be made, for groups that are known in part.

    The chances P of the groups explain a part (E sum P^2 - sum s^2) / (1 - sum s^2) of who is in
    which, for shares s: about so much of a move for one group is made for its own people.
    `certainty`: counts of sum P^2.
    """
    known = float(Scores.of(certainty, ENDS).means[0])
    alike = float((shares**2).sum())
    return float(np.clip((1.0 - alike) / max(known - alike, 1e-3), 1.0, 20.0))


@dataclass(frozen=True, eq=False)
class Table:
    """Released counts of scores by group, (n_groups, n_cells), and the noise that its plan says.

    Errors are to first order in the noise over a group's size.
    """

    counts: Floats
    noise_std: float = 0.0

    @property
    def scores(self) -> Scores:
        """Distributions of the scores."""
        return Scores.of(self.counts, np.linspace(-1.0, 1.0, self.counts.shape[1] + 1))

    def gap(self, notion: str) -> float:
        """Largest gap of two groups in the table, of levels or of means as a share of the range."""
        if notion == DISTRIBUTIONS:
            return self.scores.gap
        return 0.5 * float(np.ptp(self.scores.means))

    def _errors(self, noise: Floats, of_means: bool) -> Floats:
        """Errors of levels, or of means as shares of the range, from noise of the counts."""
        sizes = np.maximum(self.counts[:, -1:], 1.0)
        off = (noise - self.scores.levels * noise[..., -1:]) / sizes
        return off.mean(axis=-1, keepdims=True) if of_means else off

    def bound(self, notion: str, error: float) -> float:
        """Gap of the rows, at most, but with probability `error`.

        The pair of groups and the cell with the largest gap are fixed: none costs more.
        """
        levels = self.counts / np.maximum(self.counts[:, -1:], 1.0)
        of_means = notion != DISTRIBUTIONS
        figures = levels.mean(axis=1, keepdims=True) if of_means else levels
        # Every entry of the noise by itself: their squares add up.
        n = self.counts.shape[1]
        noise = PrefixSums(n, self.noise_std).decoded(np.eye(n))[:, None]
        variances = (self._errors(noise, of_means) ** 2).sum(axis=0)
        pairs = np.array([*permutations(range(len(figures)), 2)]).T
        apart = figures[pairs[0]] - figures[pairs[1]]
        stds = np.sqrt(variances[pairs[0]] + variances[pairs[1]])
        return min(float((apart + ndtri(1.0 - error) * stds).max()), 1.0)

    def reach(self, notion: str, error: float) -> float:
        """How far two groups' levels or means may both be off, but with probability `error`.

        At all cells together, for scores are moved by this table itself.
        """
        # The law of the noise is public: any draws from it serve.
        draws = np.random.default_rng(0).normal(size=(_DRAWS, *self.counts.shape))
        noise = PrefixSums(self.counts.shape[1], self.noise_std).decoded(draws)
        largest = np.abs(self._errors(noise, notion != DISTRIBUTIONS)).max(axis=-1)
        both = np.sort(largest, axis=1)[:, -2:].sum(axis=1)
        return float(np.quantile(both, 1.0 - error, method="higher"))


def with_groups(scores: Scores, numbers: Floats, codes: NDArray, notion: str, aim: float) -> Floats:
    """Move scores of known groups as little as possible, so that the table's gap is `aim`."""
    if notion != DISTRIBUTIONS:
        return np.asarray(numbers + shifts(scores, 2.0 * aim)[codes])
    return band(scores, aim).limited(numbers, scores.places(numbers, codes))


def expected_moves(scores: Scores, chances: Floats) -> Floats:
    """Shift of each row that would make means equal, as far as its group is known.

    `chances` (n_rows, n_groups): of the groups.
    """
    moves = np.zeros(len(chances))
    # Group by group: how a sum within a row is ordered must not depend on its place.
    for own, chance in zip(shifts(scores, 0.0).tolist(), chances.T, strict=True):
        moves = moves + own * chance
    return moves
