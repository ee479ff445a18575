"""The tables of a fair path: what they cost, what a record adds to each, and the direction."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from skfairdp.engine.inference import outputs_by_row
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.inprocessing.fair_path.path import SIDE, ReleasedPath, flips
from skfairdp.inprocessing.fair_path.scores import Chances, Rates
from skfairdp.inprocessing.rates.constraints import RateConstraints
from skfairdp.inprocessing.rates.multipliers import ScaledAscent
from skfairdp.inprocessing.rates.training import Lagrangian
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums, prefix_norm
from skfairdp.privacy.plan import GRID_FAILURE, Block, Plan, Segment
from skfairdp.privacy.sizes import Sizes

__all__ = ["Tables", "plan_tables"]

Floats = NDArray[np.float64]
Signed = tuple[NDArray[np.int64], NDArray[np.int64]]

# How the tables share what they get, with a known direction and with one to be found.
_SHARES = {"decisions": 0.3, "path": 0.6, "accuracy": 0.1}
_WITH_ASCENT = {"decisions": 0.2, "ascent": 0.3, "path": 0.4, "accuracy": 0.1}
_ASCENT_STEPS = 32


def plan_tables(sizes: Sizes, multiplier: float, *, ascent: bool) -> list[Segment]:
    """Plan all tables, which together are about one Gaussian release of `multiplier`.

    `ascent`: whether the direction has to be found.
    """
    segments = []
    for name, share in (_WITH_ASCENT if ascent else _SHARES).items():
        steps = _ASCENT_STEPS if name == "ascent" else 1
        norm = prefix_norm(SIDE if name in ("path", "accuracy") else 1)
        noise = multiplier * math.sqrt(steps / share) * norm
        n_cells = len(sizes.cells)
        segments.append(
            Segment(
                steps=steps,
                rates=(1.0,) * n_cells,
                expected_sizes=(sizes.total / n_cells,) * n_cells,
                blocks=(
                    Block(name=name, max_norm=norm, weights=(1.0,) * n_cells, noise_std=noise),
                ),
                failure=GRID_FAILURE if noise > 0.0 else 0.0,
            )
        )
    return segments


class Tables:
    """Releases the tables of one fit, by the segments of its plan.

    `release`: the door to the rows. `chances`: what the trained net says. `rates`: what is
    compared. `notion`: its name. `n_groups`: at least 2.
    """

    def __init__(
        self, release: NoisyRelease, chances: Chances, rates: Rates, notion: str, n_groups: int
    ) -> None:
        self._release = release
        self._chances = chances
        self._rates = rates
        self._notion = notion
        self._n_groups = n_groups
        self._planned = planned(release.meter.plan)
        self._known: Floats | None = None

    def decided(self) -> Floats:
        """Release how many of each (group, label) are selected without a constraint, or not."""
        return self._count("decisions", np.zeros((self._n_groups, 2)))

    def ascend(self, decided: Floats, tolerance: float) -> Floats:
        """Find the direction in which gaps fall at the least cost: by multipliers of the gaps.

        Dual ascent over scores that stay as they are: each step releases who is selected at the
        present multipliers, and steps shrink, so that solutions of any size are found.
        It aims at half of the tolerance, as a point is taken well within it. The
        direction is the mean of the second half of the steps.
        """
        segment = self._planned["ascent"]
        n, steps = float(sum(segment.expected_sizes)), segment.steps
        constraints = RateConstraints(self._notion, (0, 1), self._n_groups, 0.5 * tolerance)
        factors = np.arange(1.0, steps + 2.0) ** -0.7
        dual = ScaledAscent(
            constraints.tolerances, rate=0.1, penalty=0.0, limit=2.0, factors=factors
        )
        std = segment.blocks[0].noise_std / n
        lagrangian = Lagrangian(constraints, dual, memory=0.0, noise_std=std)
        costs: list[Floats] = []
        lagrangian.observe(decided / n)
        for _ in range(steps):
            costs.append(lagrangian.coefficients[..., 1] - lagrangian.coefficients[..., 0])
            lagrangian.observe(self._count("ascent", costs[-1]) / n)
        return np.asarray(np.mean(costs[steps // 2 :], axis=0))

    def along(self, direction: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Release how successes and right decisions change along the path of a direction."""
        weights = self._rates.selected.sum(axis=0)
        rate_of = np.abs(self._rates.selected).argmax(axis=0)
        found: list[Signed] = []

        def flipped(rows: Rows) -> Signed:
            if not found or rows.stored is not None:
                told = self._frozen(rows)
                found[:] = [flips(np.column_stack([told[:, 0], weighted(direction, told)]))]
            return found[0]

        def successes(rows: Rows) -> Signed:
            places, changes = flipped(rows)
            groups, labels = _codes(rows)
            side, place = np.divmod(places, SIDE)
            entries = ((side * len(self._rates.names) + rate_of[labels]) * self._n_groups) + groups
            signs = changes * weights[labels].astype(np.int64)
            return np.where(places < 0, -1, entries * SIDE + place), signs

        def right(rows: Rows) -> Signed:
            places, changes = flipped(rows)
            return places, changes * (2 * _codes(rows)[1] - 1)

        shape = 2, len(self._rates.names), self._n_groups, SIDE
        changed, _ = self._release.prefix_sums(self._planned["path"], successes, shape)
        improved, _ = self._release.prefix_sums(self._planned["accuracy"], right, (2, SIDE))
        return changed, improved

    def _frozen(self, rows: Rows) -> Floats:
        """Chances of the rows, which stay as they are: kept, here alone, of rows in memory."""
        if self._known is not None and rows.stored is None:
            return self._known
        self._known = outputs_by_row(self._chances, rows.X).cpu().numpy()
        return self._known

    def _count(self, name: str, costs: Floats) -> Floats:
        """Release who of each (group, label) is selected at some costs."""

        def entries(rows: Rows) -> Signed:
            told, (groups, labels) = self._frozen(rows), _codes(rows)
            selected = told[:, 0] > weighted(costs, told)
            return (groups * 2 + labels) * 2 + selected, np.ones(len(told), dtype=np.int64)

        shape = self._n_groups, 2, 2, 1
        return self._release.prefix_sums(self._planned[name], entries, shape)[0].reshape(shape[:3])


def weighted(costs: Floats, chances: Floats) -> Floats:
    """Sum of costs (n_groups, 2) times chances of rows, added up as `Scores` does."""
    score = np.zeros(len(chances))
    for cost, column in zip(costs.ravel(), chances[:, 1:].T, strict=True):
        score = score + cost * column
    return score


def planned(plan: Plan) -> Mapping[str, Segment]:
    """Segments of a plan by the name of what they release."""
    return {s.blocks[0].name: s for s in plan.segments if s.blocks}


def released_path(
    plan: Plan,
    rates: Rates,
    decided: Floats,
    changed: Floats,
    improved: Floats,
) -> ReleasedPath:
    """Put released tables and the noise that their plan says together."""
    stds = {name: segment.blocks[0].noise_std for name, segment in planned(plan).items()}
    of_path, of_accuracy = (PrefixSums(SIDE, stds.get(n, 0.0)).stds for n in ("path", "accuracy"))
    return ReleasedPath(rates, decided, changed, improved, stds["decisions"], of_path, of_accuracy)


def _codes(rows: Rows) -> Signed:
    labels, groups = (target.long().cpu().numpy() for target in rows.targets)
    return groups, labels
