"""Which estimators the command line can train, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from skfairdp import DPSGDClassifier, FairDPClassifier, FairPathClassifier, PrivacyLedger
from skfairdp.inprocessing.rates.classifier import RateConstrainedClassifier


@dataclass(frozen=True)
class Wanted:
    """What was asked of a model."""

    epsilon: float
    delta: float
    tolerance: float
    notions: tuple[str, ...]
    # Probability from which the favourable outcome is given, where a mechanism has one
    threshold: float
    ledger: PrivacyLedger | None
    progress: bool | None

    @property
    def shared(self) -> dict[str, Any]:
        """Parameters that all estimators take; outcomes are 0 and 1 by declaration."""
        names = ("epsilon", "delta", "ledger", "progress")
        return {name: getattr(self, name) for name in names} | {"classes": [0, 1]}


# What is taken for one notion, and for several.
DEFAULT, FOR_SEVERAL = "fair-path", "rates"
ONE_NOTION = {"fair-path"}
TAKE_A_THRESHOLD = {"fairdp"}
# A further mechanism is a further line.
MECHANISMS: Mapping[str, Callable[[Wanted], Any]] = {
    # Half of what is asked for: a certificate adds what held-out rows leave uncertain.
    "fair-path": lambda wanted: FairPathClassifier(
        notion=wanted.notions[0], tolerance=wanted.tolerance / 2.0, **wanted.shared
    ),
    "rates": lambda wanted: RateConstrainedClassifier(
        notion=wanted.notions, tolerance=wanted.tolerance / 2.0, **wanted.shared
    ),
    "fairdp": lambda wanted: FairDPClassifier(threshold=wanted.threshold, **wanted.shared),
    "dpsgd": lambda wanted: DPSGDClassifier(**wanted.shared),
}
