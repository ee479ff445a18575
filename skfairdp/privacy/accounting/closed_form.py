"""Closed-form bound on the cost of a plan, which steers the search for its noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, ndtri

from skfairdp.privacy.accounting.events import undominated_cells
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.relations import NEIGHBOURS


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
