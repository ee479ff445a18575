"""Meter of a plan: counts releases, and refuses those that the plan does not hold."""

from __future__ import annotations

from collections import Counter

from skfairdp.exceptions import PlanError
from skfairdp.privacy.plan import CountRelease, LaplaceSum, Plan, Segment


class Meter:
    """Counter of the releases of a plan that are still to come.

    Whatever adds noise to private rows draws from it first, so that nothing is released
    that the accountant did not charge.

    `plan`: what was charged. A segment without blocks releases nothing and is never drawn.

    Examples
    --------
    >>> from skfairdp.privacy import CountRelease, Plan
    >>> from skfairdp.privacy.meter import Meter
    >>> table = CountRelease(name="table", epsilon=0.5)
    >>> plan = Plan(cells=("all",), segments=(), counts=(table,), adjacency="zero-out", delta=0.0)
    >>> meter = Meter(plan)
    >>> meter.draw(table)
    >>> meter.draw(table)
    Traceback (most recent call last):
    ...
    skfairdp.exceptions.PlanError: The plan holds 1 release of 'table', of which 0 are left: ...
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        planned: Counter[Segment | CountRelease | LaplaceSum] = Counter()
        for segment in plan.segments:
            planned[segment] += segment.steps if segment.blocks else 0
        for table in plan.counts:
            planned[table] += table.releases
        planned.update(plan.sums)
        self._planned, self._left = planned, planned.copy()
        self._stopped = False

    def draw(self, release: Segment | CountRelease | LaplaceSum, times: int = 1) -> None:
        """Take steps of a segment, one table or one sum out of the plan.

        `release`: one of the plan's; which of two equal ones does not matter.
        """
        if not isinstance(release, Segment | CountRelease | LaplaceSum):
            raise PlanError(
                f"A release is drawn by its part of the plan; got {type(release).__name__}. Pass a "
                "Segment of run.plan.segments, a CountRelease of run.plan.counts or a LaplaceSum "
                "of run.plan.sums."
            )
        left = self._left.get(release)
        if left is None:
            raise PlanError(
                f"The plan does not hold {_named(release)}, so its cost was not charged: draw from "
                "run.plan, not from a copy with other figures."
            )
        if left < times:
            n = self._planned[release]
            raise PlanError(
                f"The plan holds {n} release{'' if n == 1 else 's'} of {_named(release)}, of which "
                f"{left} {'is' if left == 1 else 'are'} left: plan as many as the mechanism makes."
            )
        self._left[release] = left - times

    def left(self, release: Segment | CountRelease | LaplaceSum) -> int:
        """Count the releases of a kind that are still to be made."""
        return self._left[release]

    def stop(self) -> None:
        """Note that a released value ended the computation, so that something may be left."""
        self._stopped = True

    def finish(self) -> None:
        """End the computation."""
        left = [f"{n} of {_named(release)}" for release, n in self._left.items() if n]
        if left and not self._stopped:
            raise PlanError(
                f"The plan was charged, and holds {', '.join(left)} that were never released: plan "
                "what the mechanism releases. If a released value ends it early, call stop()."
            )


def _named(release: Segment | CountRelease | LaplaceSum) -> str:
    if isinstance(release, Segment):
        return repr(" and ".join(block.name for block in release.blocks))
    return repr(release.name)
