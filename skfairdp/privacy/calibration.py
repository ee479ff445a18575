"""Find the noise that a target epsilon needs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce

import numpy as np
from dp_accounting import dp_event as events_of
from dp_accounting.dp_event import DpEvent
from scipy.optimize import brentq
from scipy.special import gammaln, ndtri

from skfairdp.privacy.accountants import event_epsilon
from skfairdp.privacy.accounting import events, undominated_cells
from skfairdp.privacy.plan import Plan

__all__ = ["noise_multiplier_for"]

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
    Privacy loss distributions are slow, Renyi divergences are fast, and their ratio
    changes slowly with the noise. So the target of the fast bound is corrected by the
    ratio seen at the last exact evaluation, which takes about three exact evaluations.
    Where that does not settle, the bracket is halved. Results are cached.

    Examples
    --------
    >>> from skfairdp.privacy import Block, Plan, Segment, noise_multiplier_for
    >>> def make_plan(multiplier):
    ...     block = Block("gradient", 1.0, (0.01,), noise_std=0.01 * multiplier)
    ...     return Plan(("all",), (Segment(1000, (0.01,), (100.0,), (block,)),), delta=1e-5)
    >>> round(noise_multiplier_for(1.0, 1e-5, make_plan), 2)
    1.42
    """
    if not 0.0 < epsilon < math.inf:
        raise ValueError(
            f"epsilon={epsilon!r} is not allowed: give a positive finite number, or set "
            "noise_multiplier"
        )
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta={delta!r} is not allowed: give a probability in (0, 1)")
    plans = [make_plan(multiplier) for multiplier in PROBES]
    problem = _Problem(
        float(epsilon),
        float(delta),
        plans[0].adjacency,
        tuple(events(plan) for plan in plans),
        make_plan,
    )
    multiplier = _solve(problem)
    if _largest_epsilon(problem, multiplier) > epsilon:
        # Another plan with the same probes was cached; its answer is not ours.
        multiplier = _solve.__wrapped__(problem)
    return multiplier


@lru_cache(maxsize=256)
def _solve(problem: _Problem) -> float:
    """Search; kept for plans that cannot be told apart at the probes."""
    _refuse_impossible(problem)
    fast = _FastBound(problem)
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
        if low == LARGEST:
            break
        if high < low * (1.0 + 1e-9):
            return high  # the cost jumps across the accepted band
        if 0.0 < cost < math.inf:
            seen.append((math.log(guess), math.log(fast(guess) / cost)))
    raise ValueError(
        f"epsilon={problem.epsilon!r} was not met by noise multipliers up to {LARGEST:g}: give "
        "a larger epsilon, or fewer steps"
    )


def _largest_epsilon(problem: _Problem, multiplier: float) -> float:
    return max(
        event_epsilon(event, problem.delta, problem.adjacency)
        for event in _costliest(problem.make_plan(multiplier))
    )


def _costliest(plan: Plan) -> list[DpEvent]:
    per_cell = events(plan)
    return [per_cell[cell] for cell in undominated_cells(plan)]


def _refuse_impossible(problem: _Problem) -> None:
    """Raise if what the multiplier cannot change exceeds the target."""
    for of_cell in zip(*problem.probes, strict=True):
        fixed = reduce(lambda a, b: a & b, (Counter(_top_level(event)) for event in of_cell))
        if not fixed:
            continue
        floor = event_epsilon(
            events_of.ComposedDpEvent(tuple(fixed.elements())), problem.delta, problem.adjacency
        )
        if floor > problem.epsilon * CEILING:
            raise ValueError(
                f"epsilon={problem.epsilon!r} cannot be met: releases whose noise is fixed "
                f"(counts) cost {floor:.4g} alone; give a larger epsilon or spend less on them"
            )


def _top_level(event: DpEvent) -> Iterable[DpEvent]:
    if isinstance(event, events_of.NoOpDpEvent):
        return ()
    return event.events if isinstance(event, events_of.ComposedDpEvent) else (event,)


class _FastBound:
    """Closed-form bounds: a fast stand-in for the exact cost that guides the search.

    Nothing is claimed on its ground; the answer is always checked exactly.
    """

    def __init__(self, problem: _Problem) -> None:
        self._problem = problem
        log_delta = math.log(problem.delta)
        # The best order is near 2 log(1/delta) / epsilon when epsilon is small.
        top = max(64.0, -3.0 * log_delta / problem.epsilon)
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
        plan = self._problem.make_plan(multiplier)
        return max(
            min(
                float(np.min(self._renyi_cost(plan, cell) + self._delta_cost)),
                self._step_by_step_cost(plan, cell),
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
        for count in plan.counts:
            log_odds = (self._orders - 1) * count.epsilon
            heads = -math.log1p(math.exp(-count.epsilon))
            sides = np.logaddexp(heads + log_odds, heads - count.epsilon - log_odds)
            total += count.releases * sides / (self._orders - 1)
        return total

    def _step_by_step_cost(self, plan: Plan, cell: int) -> float:
        """Sum over steps, each with its share of delta: closer for a few rare steps."""
        total = sum(count.releases * count.epsilon for count in plan.counts)
        for segment in plan.segments:
            rate, sigma = segment.rates[cell], max(segment.multiplier(cell), 1e-3)
            tail = self._problem.delta / (plan.steps * rate)
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
        return np.maximum(moments, 0.0) / (self._orders - 1)


def _log1m(rate: float) -> float:
    # Finite at rate 1, so that its product with an exponent of 0 is 0.
    return math.log1p(-min(rate, 1.0 - 2.0**-53))
