"""Budget of a search: one event that stands for every candidate, and the share of the score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from dp_accounting.dp_event import ComposedDpEvent, DpEvent
from dp_accounting.rdp import compute_epsilon
from numpy.typing import NDArray
from scipy.optimize import brentq

from skfairdp.foundation import assumptions
from skfairdp.foundation.figures import as_given, significant_up
from skfairdp.model_selection.number_of_runs import (
    ORDERS,
    WHOLE_ORDERS,
    NumberOfRuns,
    curve,
    pure_curve,
    selected_curve,
)
from skfairdp.privacy.accounting.accountants import accountant_name, event_epsilon
from skfairdp.privacy.accounting.events import FailureDpEvent, covering_event, without_failures
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource, noise_text
from skfairdp.privacy.plan import Plan

SMALLEST, LARGEST = 0.1, 1e7  # noise multipliers that are looked at
# What may fail in a run of any candidate, if it may in one of the reference: 2**30 steps.
ROOM = 2.0**-70

MakePlan = Callable[[float], Plan]  # from a noise multiplier


@dataclass(frozen=True, eq=False)
class SearchBudget:
    """Budget of one run that keeps the whole search within its target."""

    runs: NumberOfRuns  # Distribution of the number of runs
    # Covers the pair (model, noisy score) of every candidate, for a record that was assigned to
    # training
    event: DpEvent
    multiplier: float  # Noise multiplier at which the reference candidate's event is `event`
    # Largest pure cost of one table of held-out counts at which the whole search costs a record
    # that was assigned to the hold-out no more than one in training, at every order
    score_epsilon: float
    epsilon: float  # What the whole search costs, in nats
    delta: float
    adjacency: str
    exact_noise: bool  # Of every candidate

    def guarantee(
        self,
        noise: NoiseSource,
        price: float,
        holdout_fraction: float,
        rests_on: Sequence[str],
        unit: str = "record",
    ) -> PrivacyGuarantee:
        """State the guarantee of the whole search, at this price of a table of held-out counts.

        `unit`: "record", or "person" where a person may have several rows.
        `noise`: where noise, split and number of runs come from. `rests_on`: assumptions about
        the tables of held-out rows, and about facts that are public.
        """
        if noise.reproducible:
            return PrivacyGuarantee.void(assumptions.seed_known("noise, split and number of runs"))
        table, *public = rests_on
        held_out, time = assumptions.HELD_OUT_WITH_CHANCE, assumptions.TIME_OF_SEARCH
        if unit == "person":
            held_out = assumptions.PERSONS_HELD_OUT_WITH_CHANCE
            time = assumptions.TIME_OF_SEARCH_OF_PERSONS
        event = self.runs.event(self.event)
        mean, shape = as_given(self.runs.mean), as_given(self.runs.shape)
        return PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            protects=unit,
            accountant=accountant_name(event, self.delta, self.adjacency),
            event=event,
            assumptions=(
                assumptions.BEST_OF_MANY.format(mean=mean, shape=shape),
                assumptions.DEAREST_REPEATED,
                f"{held_out.format(fraction=as_given(holdout_fraction))}; "
                f"{table.format(epsilon=significant_up(price, 4))}",
                *public,
                f"{noise_text(noise, exact=self.exact_noise)} (counts get noise in integers)",
                time,
                assumptions.starts(),
                assumptions.VALIDATION,
            ),
        )

    def multiplier_for(self, make_plan: MakePlan) -> float:
        """Smallest noise multiplier at which a plan's curve is nowhere above the common event's."""
        tried = make_plan(1.0)
        failure = without_failures(covering_event(tried))[1]
        if failure > without_failures(self.event)[1] or tried.exact_noise != self.exact_noise:
            raise ValueError(
                "A candidate may fail with another probability than the search was charged for: "
                "set exact_noise on the estimator, for all candidates, and not in the prior."
            )
        limit = curve(self.event)
        same = self.multiplier * (1.0 + 1e-9)  # more than what rounding could take away
        cost = curve(covering_event(make_plan(same)))
        if np.all(cost <= limit) and np.allclose(cost, limit, rtol=1e-6, atol=0.0):
            return same
        whole = np.isin(ORDERS, WHOLE_ORDERS)

        def excess(log_multiplier: float) -> float:
            cost = curve(covering_event(make_plan(math.exp(log_multiplier))), WHOLE_ORDERS)
            return float(np.max(np.log(np.maximum(cost, 1e-300) / limit[whole])))

        multiplier = _smallest(excess, "this candidate")
        while np.any(curve(covering_event(make_plan(multiplier))) > limit):
            multiplier *= 1.005  # the orders between the whole ones, seldom more than once
        return multiplier


def search_budget(
    make_plan: MakePlan, runs: NumberOfRuns, epsilon: float, delta: float
) -> SearchBudget:
    """Calibrate one run of the reference candidate so that a search costs at most a target."""
    adjacency = make_plan(1.0).adjacency

    def excess(target: float, orders: NDArray[np.float64], log_multiplier: float) -> float:
        one_run = curve(covering_event(make_plan(math.exp(log_multiplier))), orders)
        total = compute_epsilon(orders, selected_curve(one_run, runs, orders), delta)[0]
        return math.log(max(total, 1e-300) / target)

    subject = f"a search with n_iter={runs.mean:g} at epsilon={epsilon:g} and delta={delta:g}"
    enough = _smallest(partial(excess, epsilon, WHOLE_ORDERS), subject)
    target = epsilon
    while True:
        # All orders need a little less noise than the whole ones, and take longer.
        multiplier = _smallest(partial(excess, target, ORDERS), subject, 0.8 * enough, enough)
        event, failure = without_failures(covering_event(make_plan(multiplier)))
        if failure > 0.0:
            event = ComposedDpEvent((event, FailureDpEvent(max(failure, ROOM))))
        total = event_epsilon(runs.event(event), delta, adjacency)
        if total <= epsilon:
            break
        target *= 0.9999 * epsilon / total  # the library is a little above the exact orders
    price = score_epsilon_below(selected_curve(curve(event), runs), runs)
    exact = make_plan(multiplier).exact_noise
    return SearchBudget(runs, event, multiplier, price, total, delta, adjacency, exact)


def score_epsilon_below(limit: NDArray[np.float64], runs: NumberOfRuns) -> float:
    """Largest pure cost of a score whose search stays below a curve.

    For a record that no model was trained on, a run is its table of counts, which is pure.
    The best of a random number of pure runs is pure at (2 + shape) times one run's cost: the
    limit of large orders in theorem 2 of Papernot and Steinke. `limit`: curve of the whole search
    for a record in training, at all orders.
    """

    def excess(log_total: float) -> float:
        return float(np.max(pure_curve(math.exp(log_total), ORDERS) - limit))

    low, high = math.log(1e-6), math.log(50.0)
    if excess(high) <= 0.0:
        total = math.exp(high)
    else:
        total = math.exp(brentq(excess, low, high, xtol=1e-9)) * (1.0 - 1e-6)
    # A search that surely runs once selects nothing.
    return total / (2.0 + runs.shape if runs.mean > 1.0 else 1.0)


def _smallest(
    excess: Callable[[float], float], subject: str, least: float = SMALLEST, most: float = LARGEST
) -> float:
    """Multiplier at which a falling excess reaches zero, from above."""
    low, high = math.log(least), math.log(most)
    if excess(low) <= 0.0:
        return least
    if excess(high) > 0.0:
        if most < LARGEST:
            return _smallest(excess, subject, most)
        raise ValueError(
            f"No noise multiplier up to {LARGEST:g} is enough for {subject}; give a larger "
            "'epsilon', a smaller 'n_iter', or fewer steps."
        )
    return math.exp(brentq(excess, low, high, xtol=1e-6) + 2e-6)
