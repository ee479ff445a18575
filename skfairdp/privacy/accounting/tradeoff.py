"""View of an attacker: how often any test for one record's presence can be right."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from dp_accounting.dp_event import DpEvent
from scipy.optimize import minimize_scalar

from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.relations import accounted

# False-positive rates at which pages print what an attacker can reach.
FALSE_POSITIVES = (0.001, 0.01, 0.1)
# Deltas at which the trade-off function is first looked at, as powers of ten.
_POWERS = np.linspace(-5.0, -0.5, 6)


def largest_true_positive_rate(stated: PrivacyGuarantee, false_positive_rate: float) -> float:
    """Bound the true-positive rate of any membership test at a false-positive rate.

    From epsilon at every delta, by the trade-off function of the released events (Kairouz, Oh and
    Viswanath 2015; Dong, Roth and Su 2022): a test that is wrong about an absent record with
    probability a is right about a present one with probability at most e^epsilon a + delta, and at
    most 1 - e^-epsilon (1 - a - delta), whatever delta is. A guarantee without events is taken at
    its own delta alone. Of several exposures the largest counts. 1 where nothing is promised.

    `false_positive_rate`: in [0, 1].
    """
    if stated.is_void:
        return 1.0
    own = _reached(false_positive_rate, stated.epsilon, stated.delta)
    events = [share.event for share in stated.exposures or ()] or [stated.event]
    if accounted(stated.adjacency) is None or any(event is None for event in events):
        return own
    found = [_smallest(event, stated.adjacency, false_positive_rate) for event in events if event]
    return min(own, max(found))


def posterior(stated: PrivacyGuarantee) -> float:
    """Largest belief that a record was present, of who thought one half before.

    Except with probability delta.
    """
    return 1.0 if stated.epsilon > 700.0 else 1.0 / (1.0 + math.exp(-stated.epsilon))


def _smallest(event: DpEvent, adjacency: str, alpha: float) -> float:
    def at(power: float) -> float:
        delta = float(10.0**power)
        return _reached(alpha, event_epsilon(event, delta, adjacency), delta)

    return min(1.0, _minimum(at))


def _minimum(at: Callable[[float], float]) -> float:
    """Smallest value, looked for between the neighbours of the best of some points."""
    values = [at(float(power)) for power in _POWERS]
    best = int(np.argmin(values))
    ends = _POWERS[max(best - 1, 0)], _POWERS[min(best + 1, len(_POWERS) - 1)]
    options = {"xatol": 0.05, "maxiter": 5}
    near = minimize_scalar(at, bounds=ends, method="bounded", options=options)
    return float(min(values[best], near.fun))


def _reached(alpha: float, epsilon: float, delta: float) -> float:
    if math.isinf(epsilon):
        return 1.0
    grown = math.exp(min(epsilon, 700.0))
    return float(min(1.0, grown * alpha + delta, 1.0 - (1.0 - alpha - delta) / grown))
