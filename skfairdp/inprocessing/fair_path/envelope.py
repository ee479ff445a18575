"""Answers of rows along a path: upper envelopes of a line for each answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from skfairdp.inprocessing.rates.constraints import Floats

Codes = NDArray[np.int64]

# Far above what rounding moves a comparison of terms by, in units of their size.
_NEAR = 1e-9


@dataclass(frozen=True)
class Changes:
    """Changes of answers on the way from the middle of a path outwards, one in each column.

    `places` (n, n_changes): positions in a table of shape ``(2, side)``: side (multipliers below
    the middle one, above it) and first multiplier, counted outwards, at which the answer is another
    one; negative where there is none. `left`, `entered` (n, n_changes): the answers before and
    after.
    """

    places: Codes
    left: Codes
    entered: Codes


@dataclass(frozen=True, eq=False)
class Envelopes:
    """Upper envelopes of the lines ``gain - multiplier * cost``, one for each row.

    With rising multiplier the best answer of a row moves to lower and lower costs, so it changes
    at most once less than there are answers. In floating point too: `order` does not depend on
    the multiplier, and whether a row has passed from one answer of it to the next is a comparison
    of two rounded numbers that is monotone in the multiplier.

    `gains`, `costs` (n, n_answers): of each row.
    """

    gains: Floats
    costs: Floats

    @cached_property
    def order(self) -> Codes:
        """Answers of each row, as they come with rising multiplier; then -1.

        A walk from crossing to crossing, shape (n, at most n_answers).
        """
        gains, costs, rows = self.gains, self.costs, np.arange(len(self.gains))
        steepest = costs == costs.max(axis=1, keepdims=True)
        current = np.where(steepest, gains, -np.inf).argmax(axis=1)
        order = [current]
        while len(order) < gains.shape[1]:
            falls = costs[rows, current][:, None] - costs
            lower = falls > 0.0
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                crossings = (gains[rows, current][:, None] - gains) / falls
            crossings[~lower] = np.inf
            nearest = crossings.min(axis=1, keepdims=True)
            # Of several at one crossing the last, which is best beyond it.
            following = np.where(lower & (crossings == nearest), costs, np.inf).argmin(axis=1)
            ends = (order[-1] < 0) | ~lower.any(axis=1)
            if ends.all():
                break
            order.append(np.where(ends, -1, following))
            current = np.where(ends, current, following)
        return np.stack(order, axis=1)

    def answers(self, multiplier: float) -> Codes:
        """Best answers of the rows at a multiplier."""
        terms = self.gains - multiplier * self.costs
        best = terms.argmax(axis=1)
        rows = np.arange(len(terms))
        largest = terms[rows, best]
        terms[rows, best] = -np.inf
        size = _largest(np.abs(self.gains)) + abs(multiplier) * _largest(np.abs(self.costs))
        # Where no other one is near, rounding decides nothing, and the order says the same.
        near = ~(largest - _largest(terms) > _NEAR * size)
        if near.any():
            best[near] = Envelopes(self.gains[near], self.costs[near])._last_passed(multiplier)
        return best

    def _last_passed(self, multiplier: float) -> Codes:
        position = np.zeros(len(self.order), dtype=np.int64)
        going = np.ones(len(self.order), dtype=bool)
        for step in range(self.order.shape[1] - 1):
            going &= self._passage(step)(multiplier)
            position += going
        return np.asarray(self.order[np.arange(len(position)), position])

    def changes(self, multipliers: Floats) -> Changes:
        """Say where answers change along multipliers (2 * side + 1,), which ascend."""
        side, length = len(multipliers) // 2, len(multipliers)
        reached = np.zeros(len(self.order), dtype=np.int64)
        columns = []
        for step in range(self.order.shape[1] - 1):
            # First multiplier at which the row has passed to the next answer.
            has_passed = self._passage(step)
            least, most = reached.copy(), np.full(len(reached), length)
            while (least < most).any():
                middle = (least + most) // 2
                there = multipliers[np.minimum(middle, length - 1)]
                passed = has_passed(there) | (least == most)
                least, most = np.where(passed, least, middle + 1), np.where(passed, middle, most)
            reached = most
            above = reached > side
            place = np.where(above, reached - 1, side - reached)
            place = np.where((reached == 0) | (reached == length), -1, place)
            before, after = self.order[:, step], self.order[:, step + 1]
            columns.append((place, np.where(above, before, after), np.where(above, after, before)))
        if not columns:
            nothing = np.full((len(self.order), 1), -1, dtype=np.int64)
            return Changes(nothing, nothing, nothing)
        return Changes(*(np.stack(part, axis=1) for part in zip(*columns, strict=True)))

    def _passage(self, step: int) -> Callable[[float | Floats], NDArray[np.bool_]]:
        """Say at which multipliers rows have left an answer for the next; of equals the first."""
        rows, one, other = np.arange(len(self.order)), self.order[:, step], self.order[:, step + 1]
        gained = self.gains[rows, other] - self.gains[rows, one]
        saved = self.costs[rows, other] - self.costs[rows, one]
        exists, first = other >= 0, other < one

        def has_passed(multipliers: float | Floats) -> NDArray[np.bool_]:
            better = gained - multipliers * saved
            return exists & ((better > 0.0) | ((better == 0.0) & first))

        return has_passed


def _largest(table: Floats) -> Floats:
    """Largest number of each row: by columns, as rows are short and there are many."""
    return np.asarray(reduce(np.maximum, table.T))


def costs_of(direction: Floats) -> Floats:
    """Costs of all answers, (n_groups, n_labels, n_answers); of two classes the first is free.

    `direction`: of this shape; of two classes (n_groups, 2), costs of the second.
    """
    if direction.ndim == 3:
        return direction
    return np.stack([np.zeros_like(direction), direction], axis=-1)


def lines(direction: Floats, chances: Floats) -> tuple[Floats, Floats]:
    """Gains and costs (n, n_answers) of rows, added up as `Scores` in scores.py does.

    `direction`: see `costs_of`. `chances` (n, n_gains + n_groups * n_labels): as `Chances` returns
    them.
    """
    by_answer = costs_of(direction)
    n_joint = by_answer[..., 0].size
    joint = chances[:, chances.shape[1] - n_joint :].T
    gains = chances[:, : chances.shape[1] - n_joint]
    if gains.shape[1] == 1:
        gains = np.column_stack([np.zeros(len(gains)), gains])
    costs = np.zeros(gains.shape)
    for answer in range(gains.shape[1]):
        for cost, chance in zip(by_answer[..., answer].ravel(), joint, strict=True):
            if cost != 0.0:
                costs[:, answer] += cost * chance
    return gains, costs
