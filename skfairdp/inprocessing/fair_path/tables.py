"""Tables of a fair path: their plan, the entries of each record, the direction and the start."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.fair_path.envelope import Changes, Codes, Envelopes, lines
from skfairdp.inprocessing.fair_path.fitted_gaps import covariances_of, fitted_gaps
from skfairdp.inprocessing.fair_path.path import (
    AROUND_ONE,
    COARSE,
    SIDE,
    ReleasedPath,
    around,
    pooled_gaps,
    start_of,
)
from skfairdp.inprocessing.rates.constraints import Floats, RateConstraints
from skfairdp.inprocessing.rates.training import Lagrangian, ScaledAscent
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums, prefix_norm
from skfairdp.privacy.plan import GRID_FAILURE, Plan, Segment
from skfairdp.privacy.sizes import Sizes

if TYPE_CHECKING:
    from skfairdp.engine.public_features import PublicFeatures
    from skfairdp.engine.release import NoisyRelease, Rows
    from skfairdp.inprocessing.fair_path.scores import Chances


Signed = tuple[Codes, Codes]

# How the tables share what they get, with a known direction and with one to be found.
_SHARES = {
    "first decisions": 0.08,
    "start": 0.12,
    "decisions": 0.25,
    "path": 0.47,
    "accuracy": 0.08,
}
_WITH_ASCENT = {
    "first decisions": 0.07,
    "ascent": 0.27,
    "start": 0.1,
    "decisions": 0.15,
    "path": 0.33,
    "accuracy": 0.08,
}
# With a known direction, of rates among records of one label alone: these are few, and noise counts
# for more.
_WITH_LOOKS = {
    "first decisions": 0.04,
    "start": 0.08,
    "looks": 0.15,
    "decisions": 0.23,
    "path": 0.42,
    "accuracy": 0.08,
}
# Where features and labels are public, so are right answers, and what the scores expect.
_IN_PUBLIC = {"decisions": 0.2, "adjusted decisions": 0.5, "path": 0.3}
_ASCENT_STEPS = 32
_LOOKS = 3


def plan_tables(
    sizes: Sizes, multiplier: float, rates: Rates, *, ascent: bool, public: bool = False
) -> list[Segment]:
    """Plan all tables, which together are about one Gaussian release of `multiplier`.

    `ascent`: whether the direction has to be found. `public`: whether features and labels are.
    """
    segments = []
    side = len(AROUND_ONE) // 2 if public else SIDE
    lengths = {"path": side, "accuracy": side, "start": len(COARSE) // 2}
    known = _WITH_LOOKS if rates.of_one_label else _SHARES
    shares = _IN_PUBLIC if public else _WITH_ASCENT if ascent else known
    times = {"ascent": _ASCENT_STEPS, "looks": _LOOKS}
    for name, share in shares.items():
        steps = times.get(name, 1)
        norm = prefix_norm(lengths.get(name, 1), _n_entries(rates).get(name, 1))
        noise = multiplier * math.sqrt(steps / share) * norm
        failure = GRID_FAILURE if noise > 0.0 else 0.0
        segments.append(sizes.whole((name, norm, noise), steps=steps, failure=failure))
    return segments


def _n_entries(rates: Rates) -> dict[str, int]:
    """Most entries that a record adds to in the tables of changes."""
    of_changes = rates.n_entries()
    return {"path": of_changes, "start": of_changes, "accuracy": min(rates.n_answers - 1, 2)}


def plan_in_public(sizes: Sizes, steps: int, size: int, multiplier: float) -> list[Segment]:
    """Plan steps that release nothing, and one table of sums with noise."""
    table = sizes.whole(("features by group", 1.0, multiplier))
    # Without noise smaller batches are better. More steps would learn labels by heart: gaps would
    # then be smaller among these rows than among new ones.
    batch = (max(size // 4, 1) / len(sizes.cells),) * len(sizes.cells)
    return [replace(table, steps=2 * steps, expected_sizes=batch, blocks=()), table]


@dataclass(eq=False, repr=False)
class Tables:
    """Releases the tables of one fit, by the segments of its plan.

    `release`: noisy releases over the rows. `chances`: what the trained net says. `rates`: what is
    compared. `notion`: its name. `n_groups`: at least 2. `public`: the rows where features and
    labels are public. All groups together then are too, and noise is on their differences alone.
    """

    release: NoisyRelease
    chances: Chances
    rates: Rates
    notion: str
    n_groups: int
    public: PublicFeatures | None = None

    def __post_init__(self) -> None:
        self._planned = planned(self.release.meter.plan)
        self._n_labels = self.rates.successes.shape[1]
        self._without_costs = np.zeros((self.n_groups, self._n_labels, self.rates.n_answers))
        self._known: Floats | None = None
        self._last: tuple[Floats, Floats, Envelopes] | None = None
        self._labels: Codes | None = None
        self._at_one: Floats | None = None
        if self.public is not None:
            # Chances of the rows, which stay as they are: computed once, and kept by no one else.
            self._known = self.public.outputs(self.chances).cpu().numpy()
            self._labels = self.public.labels.long().cpu().numpy()

    def first(self) -> Floats:
        """Release how many of each (group, label) get each answer without a constraint.

        The direction and the start follow from it; gaps are estimated by other tables.
        """
        name = "first decisions" if self.public is None else "decisions"
        return self._count(name, self._without_costs)

    def decided(self, direction: Floats, middle: float) -> Floats:
        """Release the same at a multiplier of a direction, with its own noise."""
        name = "decisions" if self.public is None else "adjusted decisions"
        return self._count(name, direction, middle)

    def ascend(self, decided: Floats, tolerance: float) -> Floats:
        """Find the direction in which gaps fall at the least cost: by multipliers of the gaps.

        Dual ascent over scores that stay as they are: each step looks at the answers at the
        present multipliers, and steps shrink, so that solutions of any size are found. How many
        get which is released; where features and labels are public, the scores say it.
        It aims at half of the tolerance, as a point is taken well within it; where the scores say
        it, at half of the gap if that is less, so that the path leads somewhere. The
        direction is the mean of the second half of the steps.
        """
        segment = self._planned.get("ascent")
        classes = range(self.rates.n_answers)
        constraints = RateConstraints(self.notion, classes, self.n_groups, 0.5 * tolerance)
        factors = np.arange(1.0, _ASCENT_STEPS + 2.0) ** -0.7
        aims = constraints.tolerances
        if segment is None:
            n, std, look = max(float(decided.sum()), 1.0), 0.0, self._expected(decided)
            decided = look(self._without_costs)
            masses = np.maximum(constraints.masses(decided), 1.0)
            gaps = constraints.gaps_of(constraints.successes(decided) / masses, masses)
            aims = np.minimum(aims, 0.5 * np.abs(gaps).max())
        else:
            n = float(sum(segment.expected_sizes))
            std = segment.blocks[0].noise_std / n
            look = partial(self._count, "ascent")
        dual = ScaledAscent(aims, rate=0.1, penalty=0.0, limit=2.0, factors=factors)
        lagrangian = Lagrangian(constraints, dual, memory=0.0, noise_std=std)
        lagrangian.observe(decided / n)
        costs: list[Floats] = []
        seen: list[Floats] = []
        for _ in range(_ASCENT_STEPS):
            costs.append(self.rates.plain(lagrangian.coefficients))
            seen.append(look(costs[-1]))
            lagrangian.observe(seen[-1] / n)
        if segment is not None:
            self._at_one = np.asarray(np.mean(seen[_ASCENT_STEPS // 2 :], axis=0))
        return np.asarray(np.mean(costs[_ASCENT_STEPS // 2 :], axis=0))

    def start(self, direction: Floats, first: Floats) -> float:
        """Find the multiplier of the smallest gap, apart from the tables that say how far to walk.

        It is read off its own coarse path, of more than two classes together with the tables of
        the ascent, and where looks are planned off a curve that is fitted to both; where features
        and labels are public, off what the scores expect.

        `first`: as `first` released it.
        """
        if self.public is not None:
            look = self._expected(first)
            levels = [self.rates.levels_of(look(m * direction)) for m in AROUND_ONE]
            return float(AROUND_ONE[np.argmin([np.ptp(level, axis=1).max() for level in levels])])
        changed, _ = self._along(direction, COARSE, "start")
        side = changed.shape[-1]
        std = self._planned["first decisions"].blocks[0].noise_std
        # Other standard errors are not asked for.
        tables, stds = (first, changed, np.zeros((2, side))), (std, *np.zeros((2, side)))
        coarse = ReleasedPath(self.rates, COARSE, *tables, *stds, start=side, direction=direction)
        if self._at_one is not None and self.rates.n_answers > 2:
            of_mean = self._planned["ascent"].blocks[0].noise_std / math.sqrt(_ASCENT_STEPS // 2)
            covariance = self._covariance_of_start(side)
            return start_of(coarse, pooled_gaps(coarse, covariance, self._at_one, of_mean))
        if "looks" in self._planned:
            covariances = covariances_of(coarse, self._covariance_of_start(side))
            return self._looked_for(direction, coarse, covariances)
        return start_of(coarse)

    def _covariance_of_start(self, side: int) -> Floats:
        """Compute that of the noise in the start's prefix sums of one side, (side, side)."""
        sums = PrefixSums(side, self._planned["start"].blocks[0].noise_std)
        factor = sums.decoded(np.eye(side)) * self.rates.balanced_std
        return factor.T @ factor

    def _looked_for(self, direction: Floats, coarse: ReleasedPath, covariances: Floats) -> float:
        """Find where fitted gaps are smallest, by looks at where they seem to be so far.

        `coarse`, `covariances`: see `fitted_gaps`.
        """
        looks: list[tuple[float, Floats]] = []
        std = self._planned["looks"].blocks[0].noise_std
        while True:
            # Without noise there is nothing to fit.
            noisy = std > 0.0
            gaps = fitted_gaps(coarse, covariances, looks, std) if noisy else coarse.differences[0]
            start = start_of(coarse, (gaps, np.zeros_like(gaps)))
            if len(looks) == _LOOKS:
                return start
            looks.append((start, self._count("looks", direction, start)))

    def multipliers(self, start: float) -> Floats:
        """Points of the path, ascending; decisions are counted in the middle."""
        return around(start) if self.public is None else AROUND_ONE

    def along(self, direction: Floats, multipliers: Floats) -> tuple[Floats, Floats]:
        """Release how successes and right answers change along the path of a direction."""
        return self._along(direction, multipliers, "path", "accuracy")

    def _along(
        self, direction: Floats, multipliers: Floats, name: str, of_accuracy: str | None = None
    ) -> tuple[Floats, Floats]:
        found: list[tuple[Floats, Changes]] = []
        side, n_rates = len(multipliers) // 2, len(self.rates.names)
        n_entries = _n_entries(self.rates)

        def changed(outputs: Floats) -> Changes:
            if not found or found[0][0] is not outputs:  # of another part of the rows
                found[:] = [(outputs, self._envelopes(direction, outputs).changes(multipliers))]
            return found[0][1]

        def signed(changes: Changes, histogram: Callable[[Codes, Codes], Codes]) -> Signed:
            """Out of the histogram of the answer that is left, into that of the one entered."""
            of_side, place = np.divmod(changes.places, side)
            parts = []
            for answers in (changes.left, changes.entered):
                own = histogram(answers, of_side)
                parts.append(np.where((changes.places < 0) | (own < 0), -1, own * side + place))
            ones = np.ones_like(changes.places)
            return np.hstack(parts), np.hstack([-ones, ones])

        def successes(outputs: Floats, groups: Codes, labels: Codes) -> Signed:
            def histogram(answers: Codes, of_side: Codes) -> Codes:
                rate = self.rates.rate_of[labels[:, None], answers]
                own = (of_side * n_rates + rate) * self.n_groups + groups[:, None]
                return np.where(rate < 0, -1, own)

            return signed(changed(outputs), histogram)

        def right(outputs: Floats, groups: Codes, labels: Codes) -> Signed:
            def histogram(answers: Codes, of_side: Codes) -> Codes:
                return np.where(answers == labels[:, None], of_side, -1)

            return signed(changed(outputs), histogram)

        shape = 2, n_rates, self.n_groups, side
        sums = self.rates.balanced(self._table(name, successes, shape, n_entries[name]))
        if of_accuracy is None:
            return sums, np.zeros((2, side))
        of_right = self._table(of_accuracy, right, (2, 1, side), n_entries[of_accuracy])
        return sums, of_right[:, 0]

    def _envelopes(self, direction: Floats, outputs: Floats) -> Envelopes:
        """Envelopes of a direction, which is that of several tables in turn: the last is kept."""
        if self._last is None or self._last[0] is not direction or self._last[1] is not outputs:
            self._last = direction, outputs, Envelopes(*lines(direction, outputs))
        return self._last[2]

    def _frozen(self, rows: Rows) -> Floats:
        """Chances of the rows, which stay as they are: kept, here alone, of rows in memory."""
        from skfairdp.engine.inference import outputs_by_row

        if self._known is None or rows.stored is not None:
            self._known = outputs_by_row(self.chances, rows.X).cpu().numpy()
        return self._known

    def _count(self, name: str, direction: Floats, multiplier: float = 1.0) -> Floats:
        """Release how many of each (group, label) get each answer at a multiplier."""
        n_answers = self.rates.n_answers

        def entries(outputs: Floats, groups: Codes, labels: Codes) -> Signed:
            answers = self._envelopes(direction, outputs).answers(multiplier)
            # Public values may be distinguished at no cost.
            merged = self.rates.cells[labels, answers]
            cells = merged if self.public is None else labels * n_answers + answers
            return cells * self.n_groups + groups, np.ones_like(labels)

        shape = self._n_labels, n_answers, self.n_groups, 1
        return self._table(name, entries, shape)[..., 0].transpose(2, 0, 1)

    def _table(
        self,
        name: str,
        assign: Callable[[Floats, Codes, Codes], Signed],
        shape: tuple[int, ...],
        n_entries: int = 1,
    ) -> Floats:
        """Release prefix sums; the groups are the axis before the last one."""

        def of_rows(rows: Rows) -> Signed:
            labels, groups = (target.long().cpu().numpy() for target in rows.targets)
            return assign(self._frozen(rows), groups, labels)

        if self._labels is None:
            return self.release.prefix_sums(self._planned[name], of_rows, shape, n_entries)[0]
        assert self._known is not None
        entries, signs = assign(self._known, np.zeros_like(self._labels), self._labels)
        together, within = np.zeros(shape), entries >= 0
        np.add.at(together.reshape(-1), entries[within], signs[within])
        total = together.cumsum(axis=-1).sum(axis=-2, keepdims=True)
        if name not in self._planned:
            return np.asarray(total)
        sums = self.release.prefix_sums(self._planned[name], of_rows, shape, n_entries)[0]
        return np.asarray(sums + (total - sums.sum(axis=-2, keepdims=True)) / shape[-2])

    def _expected(self, decided: Floats) -> Callable[[Floats], Floats]:
        """Say by the scores how many of each (group, label) are selected at some costs.

        Persons are weighted such that without a cost they are as many as were released.
        """
        assert self._known is not None
        assert self._labels is not None
        outputs, labels, shape = self._known, self._labels, decided.shape
        n_joint = self.n_groups * shape[1]
        joint = outputs[:, outputs.shape[1] - n_joint :].reshape(-1, self.n_groups, shape[1])
        own = np.take_along_axis(joint, labels[:, None, None], axis=2)[..., 0].T
        own /= np.maximum(own.sum(axis=0), np.finfo(float).tiny)

        def answers(costs: Floats) -> Codes:
            return Envelopes(*lines(costs, outputs)).answers(1.0)

        def at(costs: Floats) -> Floats:
            cells = labels * shape[2] + answers(costs)
            counts = [np.bincount(cells, chance, minlength=shape[1] * shape[2]) for chance in own]
            return np.reshape(counts, shape)

        factors = np.maximum(decided, 0.0) / np.maximum(at(self._without_costs), 1.0)
        own *= factors[:, labels, answers(self._without_costs)]
        return at


def planned(plan: Plan) -> Mapping[str, Segment]:
    """Segments of a plan by the name of their release."""
    return {s.blocks[0].name: s for s in plan.segments if s.blocks}
