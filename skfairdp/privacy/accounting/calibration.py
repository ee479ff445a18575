"""Calibration: the noise multiplier for a target epsilon."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import and_

from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent

from skfairdp.foundation.figures import significant_up
from skfairdp.foundation.parameters import POSITIVE, PROBABILITY, check_values
from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.accounting.closed_form import ClosedFormBound
from skfairdp.privacy.accounting.events import events, parts_of, undominated_cells
from skfairdp.privacy.plan import Plan

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
        if floor > problem.epsilon * CEILING:
            raise ValueError(
                f"epsilon={problem.epsilon!r} cannot be met: releases whose noise is fixed "
                f"(counts) cost {significant_up(floor, 4)} alone; give a larger epsilon or spend "
                "less on them"
            )
