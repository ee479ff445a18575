"""Privacy filter: a budget that holds for plans chosen by looking at earlier releases.

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

from skfairdp.privacy.accounting.accountants import event_epsilon, renyi_divergences
from skfairdp.privacy.accounting.events import canonical, without_failures
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.relations import accounted

# Share of the rest of delta, for failures after a statement that took all that was set aside.
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
    known = accounted(adjacency) is not None
    if not others:
        alone = first.epsilon if first.delta <= delta else math.inf
        by_event = known and first.event is not None
        return min(alone, event_epsilon(first.event, delta, adjacency)) if by_event else alone
    curves = [
        renyi_divergences(item.event, ORDERS, adjacency) if known and item.event else None
        for item in parts
    ]
    plain = [item for item, curve in zip(parts, curves, strict=True) if curve is None]
    aside = delta / 2.0
    if curves[0] is None:
        aside = max(aside, min(first.delta, delta))
    # A kernel splits into a part of mass <= its delta, or failure, and a rest that its divergences
    # bound: over any choices the first parts' masses add up, and the rests keep to the filter.
    lost = [
        item.delta if curve is None else without_failures(canonical(item.event))[1]
        for item, curve in zip(parts, curves, strict=True)
    ]
    if math.fsum(lost) > aside + TAILS * (delta - aside):
        return math.inf
    charges = [math.inf]
    if all(item.delta == 0.0 or curve is None for item, curve in zip(parts, curves, strict=True)):
        charges.append(math.fsum(item.epsilon for item in parts))
    chosen = _orders(epsilon, (delta - aside) / 3.0)
    if chosen:
        summed = [curve for curve in curves if curve is not None]
        # A promise is about both data sets, whatever the relation is.
        pure = [
            renyi_divergences(DiscreteLaplaceDpEvent(item.epsilon, 1), ORDERS, "add-remove")
            for item in plain
        ]
        total = np.sum(np.array([*summed, *pure], dtype=np.float64), axis=0)
        orders, share = np.array(ORDERS)[chosen], (delta - aside) * (1.0 - TAILS) / len(chosen)
        charges.append(compute_epsilon(orders, total[chosen], share)[0])
    return float(min(charges))


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
