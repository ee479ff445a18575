"""Releases that each record takes part in, and the cost for each record."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent

from skfairdp.foundation.figures import label_from_json, label_to_json
from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.accounting.events import canonical, parts_of
from skfairdp.privacy.accounting.table import event_from_dict, event_to_dict
from skfairdp.privacy.relations import NEIGHBOURS, accounted


@dataclass(frozen=True)
class Exposure:
    """Events in which the records of some groups take part."""

    event: DpEvent  # Event of a record that takes part
    # Labels of its groups; None for a record of any group
    groups: tuple[Hashable, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        named = None if self.groups is None else [label_to_json(k) for k in self.groups]
        return {"groups": named, "event": event_to_dict(self.event)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Rebuild from `to_dict`, also after a round trip through JSON."""
        groups = document["groups"]
        return cls(
            event_from_dict(document["event"]),
            None if groups is None else tuple(map(label_from_json, groups)),
        )


class Stated(Protocol):
    """Form in which a `PrivacyGuarantee` stores its exposures."""

    @property
    def delta(self) -> float: ...
    @property
    def adjacency(self) -> str: ...
    @property
    def per_group(self) -> Mapping[Hashable, float] | None: ...
    @property
    def event(self) -> DpEvent | None: ...
    @property
    def exposures(self) -> tuple[Exposure, ...] | None: ...


def recomputed_epsilons(stated: Stated) -> dict[Hashable | None, float]:
    """Epsilon that follows from the stored events of a guarantee.

    `stated`: with an event, or with exposures. Result: epsilon of a record of any group under
    None, and of each group of `per_group`.
    """
    shares = stated.exposures or (() if stated.event is None else (Exposure(stated.event),))
    if not shares:
        raise ValueError("the guarantee holds no event, from which its cost would follow")
    costs = [(s.groups, event_cost(s.event, stated.delta, stated.adjacency)) for s in shares]
    found: dict[Hashable | None, float] = {None: max(cost for _, cost in costs)}
    for group in stated.per_group or {}:
        own = [cost for groups, cost in costs if groups is None or group in groups]
        if not own:
            raise ValueError(f"the guarantee holds no event of a record of the group {group!r}")
        found[group] = max(own)
    return found


def event_cost(event: DpEvent, delta: float, adjacency: str) -> float:
    """Epsilon of an event by an accountant, or by basic composition where that is smaller."""
    event = canonical(event)
    pure, others = 0.0, []
    for part, count in parts_of(event):
        match part:
            case dp_event.DiscreteLaplaceDpEvent(noise_parameter=rate, sensitivity=sensitivity):
                pure += count * rate * sensitivity
            case dp_event.LaplaceDpEvent(noise_multiplier=scale):
                pure += count / scale
            case dp_event.NoOpDpEvent():
                pass
            case _:
                others.append(dp_event.SelfComposedDpEvent(part, count))
    if accounted(adjacency) is None:
        if others:
            raise ValueError(f"no accountant knows the cost of its event under {adjacency!r}")
        return pure
    rest = dp_event.ComposedDpEvent(tuple(others))
    basic = NEIGHBOURS[adjacency].places * pure + (
        event_epsilon(rest, delta, adjacency) if others else 0.0
    )
    return min(basic, event_epsilon(event, delta, adjacency))
