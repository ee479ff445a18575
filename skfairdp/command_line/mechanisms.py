"""Which estimators the command line can train, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import skfairdp  # which imports an estimator when it is asked for


@dataclass(frozen=True)
class Wanted:
    """What was asked of a model."""

    epsilon: float
    delta: float
    tolerance: float
    notions: tuple[str, ...]
    # Probability from which the favourable outcome is given, where a mechanism has one
    threshold: float
    ledger: skfairdp.PrivacyLedger | None
    progress: bool | None

    @property
    def shared(self) -> dict[str, Any]:
        """Parameters that all estimators take; outcomes are 0 and 1 by declaration."""
        names = ("epsilon", "delta", "ledger", "progress")
        return {name: getattr(self, name) for name in names} | {"classes": [0, 1]}


DEFAULT = "rates"
TAKE_A_THRESHOLD = {"fairdp"}
# A further mechanism is a further line.
MECHANISMS: Mapping[str, Callable[[Wanted], Any]] = {
    # Half of what is asked for: a certificate adds what held-out rows leave uncertain.
    "rates": lambda wanted: skfairdp.RateConstrainedClassifier(
        notion=wanted.notions, tolerance=wanted.tolerance / 2.0, **wanted.shared
    ),
    "fairdp": lambda wanted: skfairdp.FairDPClassifier(threshold=wanted.threshold, **wanted.shared),
    "dpsgd": lambda wanted: skfairdp.DPSGDClassifier(**wanted.shared),
}
