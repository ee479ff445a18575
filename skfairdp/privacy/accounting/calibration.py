"""Calibration: the noise multiplier for a target epsilon, by a fast bound and the exact cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import and_

import numpy as np
from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent
from scipy.optimize import brentq
from scipy.special import gammaln, ndtri

from skfairdp.foundation.figures import as_given, significant_up
from skfairdp.foundation.parameters import POSITIVE, PROBABILITY, check_values
from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.accounting.events import (
    events,
    parts_of,
    undominated_cells,
    without_failures,
)
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.relations import NEIGHBOURS

# Multipliers outside are of no use: below .1 one full-batch step costs more than 90.
SMALLEST, LARGEST = 0.1, 1e7
# Accepted share of the target; aimed at from below, so that it is never exceeded.
ACCEPTED, AIM, CEILING = 0.9955, 0.999, 1.0 - 1e-6
# Corrections by the ratio of fast bound and exact cost before the bracket is halved instead.
CORRECTIONS = 9
MAX_EVALUATIONS = 60
PROBES = (0.6, 1.0, 3.7)


@dataclass(frozen=True)
class _Problem:
    """A calibration task; equal tasks have equal events at the probed multipliers."""

    epsilon: float
    delta: float
    adjacency: str
    probes: tuple[tuple[DpEvent, ...], ...]
    make_plan: Callable[[float], Plan] = field(compare=False)


def noise_multiplier_for(epsilon: float, delta: float, make_plan: Callable[[float], Plan]) -> float:
    """Smallest base noise multiplier whose plan costs at most `epsilon`.

    Parameters
    ----------
    epsilon : float
        Target in nats, finite and positive.
    delta : float
        Probability in (0, 1) at which the target holds.
    make_plan : callable
        Maps a base noise multiplier to the plan that would be run with it. A larger
        multiplier must not cost more. Sampling rates, steps and counts must not depend
        on private data.

    Returns
    -------
    float
        A multiplier, at least 0.1, whose plan has every cell's epsilon at most the
        target, and the largest one above 0.995 of it unless 0.1 is returned.

    Raises
    ------
    ValueError
        If the target is not positive and finite, or if the plan costs more than the
        target even with unlimited noise, because counts use up the budget.

    Notes
    -----
    The target of a fast bound is corrected by its ratio to the exact cost, which takes about three
    exact evaluations. Where that does not settle, the bracket is halved. Results are cached.

    Examples
    --------
    >>> from skfairdp.privacy import Block, Plan, Segment, noise_multiplier_for
    >>> def make_plan(multiplier):
    ...     std = 0.01 * multiplier
    ...     block = Block(name="gradient", max_norm=1.0, weights=(0.01,), noise_std=std)
    ...     step = Segment(steps=1000, rates=(0.01,), expected_sizes=(100.0,), blocks=(block,))
    ...     return Plan(cells=("all",), segments=(step,), adjacency="zero-out", delta=1e-5)
    >>> round(noise_multiplier_for(1.0, 1e-5, make_plan), 2)
    1.42
    """
    check_values(epsilon=(epsilon, POSITIVE), delta=(delta, PROBABILITY))
    plans = [make_plan(multiplier) for multiplier in PROBES]
    probes = tuple(map(events, plans))
    problem = _Problem(float(epsilon), float(delta), plans[0].adjacency, probes, make_plan)
    multiplier = _solve(problem)
    if _largest_epsilon(problem, multiplier) > epsilon:
        # Another plan with the same probes was cached; its answer is not ours.
        multiplier = _solve.__wrapped__(problem)
    return multiplier


@lru_cache(maxsize=256)
def _solve(problem: _Problem) -> float:
    """Search; cached for plans that are equal at the probes."""
    _refuse_impossible(problem)
    fast = ClosedFormBound(problem.epsilon, problem.delta, problem.make_plan)
    low, high = SMALLEST, LARGEST
    seen: list[tuple[float, float]] = []  # log multiplier, log (fast bound / exact cost)
    for evaluation in range(MAX_EVALUATIONS):
        guess = fast.solve(problem.epsilon * AIM, seen, low, high)
        if evaluation >= CORRECTIONS or (evaluation > 0 and not low < guess < high):
            guess = math.sqrt(low * high)
        cost = _largest_epsilon(problem, guess)
        share = cost / problem.epsilon
        if ACCEPTED <= share <= CEILING or (share <= CEILING and guess == SMALLEST):
            return guess
        low, high = (low, guess) if share <= CEILING else (guess, high)
        if low * (1.0 + 1e-9) > LARGEST:
            break  # the upper end was never met
        if high < low * (1.0 + 1e-9):
            return high  # the cost jumps across the accepted band
        if 0.0 < cost < math.inf:
            seen.append((math.log(guess), math.log(fast(guess) / cost)))
    raise ValueError(
        f"epsilon={problem.epsilon!r} was not met by noise multipliers up to {LARGEST:g}: give "
        "a larger epsilon, or fewer steps"
    )


def _largest_epsilon(problem: _Problem, multiplier: float) -> float:
    plan = problem.make_plan(multiplier)
    per_cell, cells = events(plan), undominated_cells(plan)
    return max(event_epsilon(per_cell[cell], problem.delta, problem.adjacency) for cell in cells)


def _refuse_impossible(problem: _Problem) -> None:
    """Raise if the costs that do not depend on the multiplier exceed the target."""
    for of_cell in zip(*problem.probes, strict=True):
        fixed = reduce(and_, (Counter(parts_of(event)) for event in of_cell))
        alone = [dp_event.SelfComposedDpEvent(*part) for part in fixed.elements()]
        floor = event_epsilon(dp_event.ComposedDpEvent(alone), problem.delta, problem.adjacency)
        _, aside = without_failures(dp_event.ComposedDpEvent(alone))
        if math.isinf(floor) and aside >= problem.delta:
            raise ValueError(
                f"delta={as_given(problem.delta)} cannot be met: {significant_up(aside, 2)} of it "
                "is set aside for tails of the noise that are never drawn; give a larger delta"
            )
        if floor > problem.epsilon * CEILING:
            raise ValueError(
                f"epsilon={problem.epsilon!r} cannot be met: releases whose noise is fixed "
                f"(counts) cost {significant_up(floor, 4)} alone; give a larger epsilon or spend "
                "less on them"
            )


class ClosedFormBound:
    """Closed-form bounds: a fast stand-in for the exact cost that guides the search.

    Nothing is claimed on its ground; the answer is always checked exactly. `epsilon`: target of
    the search; sets the range of Renyi orders.
    """

    def __init__(self, epsilon: float, delta: float, make_plan: Callable[[float], Plan]) -> None:
        self._delta = delta
        self._make_plan = make_plan
        log_delta = math.log(delta)
        # The best order is near 2 log(1/delta) / epsilon when epsilon is small.
        top = max(64.0, -3.0 * log_delta / epsilon)
        orders = {round(2.0 ** (1.0 + i / 2)) for i in range(math.ceil(2.0 * math.log2(top)))}
        self._orders = np.array(sorted(orders))
        self._delta_cost = -log_delta / (self._orders - 1)
        # The binomial sums of all orders lie one after the other.
        self._starts = np.concatenate([[0], np.cumsum(self._orders + 1)[:-1]])
        self._n = np.repeat(self._orders, self._orders + 1)
        self._k = np.concatenate([np.arange(order + 1) for order in self._orders])
        self._log_binomial = (
            gammaln(self._n + 1) - gammaln(self._k + 1) - gammaln(self._n - self._k + 1)
        )

    def __call__(self, multiplier: float) -> float:
        """Bound, in nats, at a base noise multiplier."""
        plan = self._make_plan(multiplier)
        # A changed attribute is a record that leaves one cell and one that joins another.
        records = 2 if NEIGHBOURS[plan.adjacency].two_cells else 1
        return max(
            min(
                float(np.min(records * self._renyi_cost(plan, cell) + self._delta_cost)),
                records * self._step_by_step_cost(plan, cell),
            )
            for cell in undominated_cells(plan)
        )

    def solve(
        self, target: float, seen: Sequence[tuple[float, float]], low: float, high: float
    ) -> float:
        """Multiplier in [low, high] whose corrected bound is `target`, or the nearer end."""
        x0, level = seen[-1] if seen else (0.0, 0.0)
        slope = (level - seen[-2][1]) / (x0 - seen[-2][0]) if len(seen) > 1 else 0.0

        def excess(x: float) -> float:
            return (
                math.log(self(math.exp(x)) / target) - level - slope * min(max(x - x0, -0.3), 0.3)
            )

        ends = math.log(low), math.log(high)
        if excess(ends[0]) <= 0.0:
            return low
        if excess(ends[1]) >= 0.0:
            return high
        return math.exp(brentq(excess, *ends, xtol=1e-6))

    def _renyi_cost(self, plan: Plan, cell: int) -> np.ndarray:
        total = np.zeros(len(self._orders))
        for segment in plan.segments:
            sigma = min(max(segment.multiplier(cell), 1e-3), 1e12)
            total += segment.steps * self._sampled_gaussian(segment.rates[cell], sigma)
        for epsilon, releases in _pure(plan, cell):
            log_odds = (self._orders - 1) * epsilon
            heads = -math.log1p(math.exp(-epsilon))
            sides = np.logaddexp(heads + log_odds, heads - epsilon - log_odds)
            total += releases * sides / (self._orders - 1)
        return total

    def _step_by_step_cost(self, plan: Plan, cell: int) -> float:
        """Sum over steps, each with its share of delta: closer for a few rare steps."""
        total = sum(releases * epsilon for epsilon, releases in _pure(plan, cell))
        for segment in (segment for segment in plan.segments if segment.steps > 0):
            rate, sigma = segment.rates[cell], max(segment.multiplier(cell), 1e-3)
            tail = self._delta / (plan.steps * rate)
            loss = max(0.0, 0.5 / sigma**2 - ndtri(tail) / sigma) if tail < 1.0 else 0.0
            total += segment.steps * np.logaddexp(_log1m(rate), math.log(rate) + loss)
        return max(float(total), 1e-9)

    def _sampled_gaussian(self, rate: float, sigma: float) -> np.ndarray:
        terms = (
            self._log_binomial
            + self._k * math.log(rate)
            + (self._n - self._k) * _log1m(rate)
            + self._k * (self._k - 1) / (2.0 * sigma**2)
        )
        moments = np.logaddexp.reduceat(terms, self._starts)
        return np.asarray(np.maximum(moments, 0.0) / (self._orders - 1))


def _pure(plan: Plan, cell: int) -> list[tuple[float, int]]:
    """Pure releases that a record of a cell is in: their epsilon and how many."""
    counts = [(count.epsilon, count.releases) for count in plan.counts]
    # A search may look at noise so small that its epsilon overflows an exponential.
    return counts + [
        (min(plan.charged_epsilon(released, cell), 600.0), 1) for released in plan.sums
    ]


def _log1m(rate: float) -> float:
    # Finite at rate 1, so that its product with an exponent of 0 is 0.
    return math.log1p(-min(rate, 1.0 - 2.0**-53))
