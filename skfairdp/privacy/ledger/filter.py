"""Whether a budget holds for plans that were chosen by looking at earlier releases.

Composing loss distributions is a theorem about plans that were fixed beforehand. Where a plan
may depend on what was released before, the sum of Renyi divergences at an order fixed in
advance still bounds the whole (Feldman and Zrnic, "Individual Privacy Accounting via a Renyi
Filter", NeurIPS 2021, theorem 3.3): such a sum is what a budget is kept by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from dp_accounting.rdp import compute_epsilon
from numpy.typing import NDArray

from skfairdp.privacy.accounting.accountants import event_epsilon, renyi_divergences
from skfairdp.privacy.accounting.events import canonical, without_failures
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.relations import accounted

# Share of delta for releases that may, in their far tails, not be what their events say.
TAILS = 1e-6
# Few enough to be quick, and close enough to lose little.
ORDERS = (
    *(1.25, 1.5, 1.75, *map(float, range(2, 13)), 14.0, 16.0, 20.0, 24.0, 28.0, 32.0, 40.0),
    *(48.0, 56.0, 64.0, 80.0, 96.0, 128.0, 192.0, 256.0, 512.0),
)


def filtered_epsilon(
    parts: Sequence[PrivacyGuarantee], epsilon: float, delta: float, adjacency: str
) -> float:
    """Epsilon that a filter for one budget charges; within the budget, all of it is kept.

    `parts`: at least one, none void, all read in the budget's relation, in the order of their
    choice. The first was fixed beforehand; each other one may have been chosen by looking at what
    the earlier ones released. Orders follow from the budget's `epsilon` and `delta`, so they are
    fixed in advance. Result: if it is at most `epsilon` after every choice, everything together
    is (epsilon, delta)-private ("A budget" in ``docs/theory/ledger.md``). Infinity where deltas
    alone are too large.
    """
    first, *others = parts
    if not others:
        return _alone(first, delta, adjacency)
    curves = [_curve(item, adjacency) for item in parts]
    plain = [item for item, curve in zip(parts, curves, strict=True) if curve is None]
    aside = delta / 2.0
    if curves[0] is None:
        aside = max(aside, min(first.delta, delta))
    if math.fsum(item.delta for item in plain) > aside:
        return math.inf
    charges = [math.inf]
    if all(item.delta == 0.0 or curve is None for item, curve in zip(parts, curves, strict=True)):
        charges.append(math.fsum(item.epsilon for item in parts))
    told = [canonical(item.event) for item in parts if item.event is not None]
    if sum(without_failures(event)[1] for event in told) > TAILS * (delta - aside):
        return math.inf
    chosen = _orders(epsilon, (delta - aside) / 3.0)
    if chosen:
        summed = [curve for curve in curves if curve is not None]
        total = np.sum([*summed, *(_pure_curve(item.epsilon) for item in plain)], axis=0)
        orders, share = np.array(ORDERS)[chosen], (delta - aside) * (1.0 - TAILS) / len(chosen)
        charges.append(compute_epsilon(orders, total[chosen], share)[0])
    return float(min(charges))


def _alone(item: PrivacyGuarantee, delta: float, adjacency: str) -> float:
    charges = [item.epsilon if item.delta <= delta else math.inf]
    if item.event is not None and accounted(adjacency) is not None:
        charges.append(event_epsilon(item.event, delta, adjacency))
    return min(charges)


def _curve(item: PrivacyGuarantee, adjacency: str) -> NDArray[np.float64] | None:
    if item.event is None or accounted(adjacency) is None:
        return None
    return renyi_divergences(item.event, ORDERS, adjacency)


def _pure_curve(epsilon: float) -> NDArray[np.float64]:
    # A promise is about both data sets, whatever the relation is.
    curve = renyi_divergences(DiscreteLaplaceDpEvent(epsilon, 1), ORDERS, "add-remove")
    assert curve is not None
    return curve


def _orders(epsilon: float, share: float) -> list[int]:
    """Positions of the orders: one that suits divergences that grow with it, and lower ones.

    Sums over small batches grow faster than that at large orders.
    """
    if share <= 0.0:
        return []
    orders = np.array(ORDERS)
    limits = epsilon - np.log1p(-1.0 / orders) + np.log(share * orders) / (orders - 1.0)
    best = orders[np.argmax(limits / orders)]
    return sorted({int(np.argmin(np.abs(orders - best / part))) for part in (1.0, 2.0, 4.0)})
