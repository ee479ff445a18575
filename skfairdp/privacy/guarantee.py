"""Privacy guarantee: one statement with its neighbouring relation and its assumptions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from dp_accounting import dp_event as events

from skfairdp.foundation.figures import label_from_json, label_to_json
from skfairdp.foundation.parameters import CHANCE, NOT_NEGATIVE, check_values, plain_label
from skfairdp.privacy.accounting.exposure import Exposure
from skfairdp.privacy.accounting.table import (
    event_from_dict,
    event_to_dict,
    number_from_json,
    number_to_json,
)
from skfairdp.privacy.relations import NEIGHBOURS, PROTECTED, check_name


@dataclass(frozen=True)
class PrivacyGuarantee:
    """Promise of differential privacy about one release or one fitted model.

    Parameters
    ----------
    epsilon : float
        Privacy loss in nats, an upper bound. Infinity means that nothing is promised;
        `assumptions` then names the reason.
    delta : float
        Probability in [0, 1) with which the loss may be exceeded.
    adjacency : str
        What distinguishes neighbouring data sets: a key of ``ADJACENCIES``.
    protects : str, default="record"
        What is protected: a key of ``PROTECTS``.
    accountant : str, default=""
        Which accountant computed `epsilon`, with its version.
    per_group : mapping from group label to float, or None, default=None
        Epsilon for a record of each group; `epsilon` is at least their maximum.
    event : dp_accounting.DpEvent or None, default=None
        What was released, for composition with other releases. It covers a record of
        any group. None when no single event does: then epsilon and delta themselves
        are composed.
    assumptions : tuple of str, default=()
        Conditions under which the statement holds.
    exposures : tuple of Exposure or None, default=()
        Which records take part in which event, where `epsilon` is the largest cost of
        these and smaller than that of `event`. Empty where all take part in `event`; None
        where that is not known, as in files of earlier versions.

    Raises
    ------
    ValueError
        If a number or a name is not one of the allowed values.

    Examples
    --------
    >>> from skfairdp.privacy.guarantee import PrivacyGuarantee
    >>> stated = PrivacyGuarantee(epsilon=1.0, delta=1e-6, adjacency="zero-out")
    >>> stated.satisfies(epsilon=2.0)
    True
    >>> stated.satisfies(epsilon=2.0, adjacency="add-remove")
    False
    >>> PrivacyGuarantee.from_dict(stated.to_dict()) == stated
    True
    """

    epsilon: float
    delta: float
    adjacency: str
    protects: str = "record"
    accountant: str = ""
    per_group: Mapping[Hashable, float] | None = None
    # Not in repr, where they take thousands of characters; to_dict and certificates show them.
    event: events.DpEvent | None = field(default=None, repr=False)
    assumptions: tuple[str, ...] = field(default=(), repr=False)
    exposures: tuple[Exposure, ...] | None = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Check names and numbers, and detach the guarantee from mutable arguments."""
        _check(self.epsilon, self.delta, self.adjacency, self.protects)
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        object.__setattr__(self, "assumptions", tuple(self.assumptions))
        if self.exposures is not None:
            object.__setattr__(self, "exposures", tuple(self.exposures))
        if self.per_group is not None:
            groups = {plain_label(k): float(v) for k, v in self.per_group.items()}
            if any(not value >= 0.0 for value in groups.values()):
                raise ValueError(f"per_group must map each group to a number >= 0; got {groups!r}")
            if groups and max(groups.values()) > self.epsilon:
                raise ValueError(
                    f"epsilon={self.epsilon!r} is below the largest value of per_group, "
                    f"{max(groups.values())!r}: state at least the maximum over groups"
                )
            object.__setattr__(self, "per_group", MappingProxyType(groups))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy through the dictionary form (mapping proxies have no pickle)."""
        return PrivacyGuarantee.from_dict, (self.to_dict(),)

    def __hash__(self) -> int:
        """Hash of the statement; the event and the groups follow from it in practice."""
        return hash((self.epsilon, self.delta, self.adjacency, self.protects, self.assumptions))

    @classmethod
    def void(
        cls,
        *reasons: str,
        delta: float = 0.0,
        adjacency: str = "zero-out",
        protects: str = "record",
    ) -> PrivacyGuarantee:
        """State that nothing is promised, and why.

        Parameters
        ----------
        *reasons : str
            Why privacy is void; they become the assumptions.
        delta : float, default=0.0
            Probability in [0, 1); without meaning while epsilon is infinite.
        adjacency : str, default="zero-out"
            Relation that the statement would have had.
        protects : str, default="record"
            What would have been protected.

        Returns
        -------
        PrivacyGuarantee
            With ``epsilon`` infinite.

        Examples
        --------
        >>> from skfairdp.privacy.guarantee import PrivacyGuarantee
        >>> PrivacyGuarantee.void("the noise was reproducible").epsilon
        inf
        """
        event = events.NonPrivateDpEvent()
        return cls(math.inf, delta, adjacency, protects, event=event, assumptions=reasons)

    @property
    def is_void(self) -> bool:
        """True when nothing is promised."""
        return math.isinf(self.epsilon)

    def assuming(self, *more: str) -> PrivacyGuarantee:
        """Add assumptions to those of a promise; one that is void rests on none.

        Parameters
        ----------
        *more : str
            Sentences.

        Returns
        -------
        PrivacyGuarantee
            This one where nothing is promised.
        """
        return self if self.is_void else replace(self, assumptions=(*self.assumptions, *more))

    def satisfies(
        self,
        epsilon: float,
        delta: float | None = None,
        *,
        adjacency: str | None = None,
        protects: str | None = None,
    ) -> bool:
        """Whether the guarantee is at least as strong as the one asked for.

        Parameters
        ----------
        epsilon : float
            Largest acceptable epsilon, in nats.
        delta : float or None, default=None
            Largest acceptable delta. None accepts the delta of this guarantee.
        adjacency : str or None, default=None
            Relation that is asked for. None means the one of this guarantee.
        protects : str or None, default=None
            What has to be protected. None means what this guarantee protects.

        Returns
        -------
        bool
            False for a void guarantee and for another relation or another protected
            thing: figures of different relations are not comparable.

        Raises
        ------
        ValueError
            If a number or a name is not one of the allowed values.
        """
        delta = self.delta if delta is None else delta
        adjacency = self.adjacency if adjacency is None else adjacency
        protects = self.protects if protects is None else protects
        _check(epsilon, delta, adjacency, protects)
        return (
            not self.is_void
            and (adjacency, protects) == (self.adjacency, self.protects)
            and self.delta <= delta
            and self.epsilon <= epsilon
        )

    def to_dict(self) -> dict[str, Any]:
        """Write the guarantee down; `from_dict` reads it back without loss.

        Returns
        -------
        dict
            Plain lists, strings and numbers, fit for JSON: infinity is the string "inf".
        """
        groups, event = self.per_group, self.event
        document: dict[str, Any] = vars(self) | {
            "epsilon": number_to_json(self.epsilon),
            "per_group": None
            if groups is None
            else [[label_to_json(k), number_to_json(v)] for k, v in groups.items()],
            "event": None if event is None else event_to_dict(event),
            "assumptions": list(self.assumptions),
        }
        shares = document.pop("exposures")
        return (
            document if shares is None else document | {"exposures": [s.to_dict() for s in shares]}
        )

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> PrivacyGuarantee:
        """Rebuild a guarantee from its dictionary form.

        Parameters
        ----------
        document : mapping
            What `to_dict` returned, also after a JSON round trip.

        Returns
        -------
        PrivacyGuarantee
            Equal to the one that was written.

        Raises
        ------
        ValueError
            If an event or a value of the document is of an unknown kind.
        """
        groups, event = document["per_group"], document["event"]
        shares = document.get("exposures")
        plain = ("delta", "adjacency", "protects", "accountant", "assumptions")
        return cls(
            epsilon=number_from_json(document["epsilon"]),
            **{name: document[name] for name in plain},
            per_group=None
            if groups is None
            else {label_from_json(k): number_from_json(v) for k, v in groups},
            event=None if event is None else event_from_dict(event),
            exposures=None if shares is None else tuple(map(Exposure.from_dict, shares)),
        )


def _check(epsilon: float, delta: float, adjacency: str, protects: str) -> None:
    check_values(epsilon=(epsilon, NOT_NEGATIVE), delta=(delta, CHANCE))
    check_name("adjacency", adjacency, NEIGHBOURS)
    check_name("protects", protects, PROTECTED)
