"""The one table of mechanisms that the frontier compares; those that are present are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import skfairdp

__all__ = ["MECHANISMS", "Mechanism", "present"]


@dataclass(frozen=True)
class Mechanism:
    """One line of the table.

    Parameters
    ----------
    name : str
        As it is shown.
    estimator : str
        Name of the class in `skfairdp`; a line whose class is not there is left out.
    knob : callable
        Maps a tolerance to parameters. An empty mapping for every tolerance: the mechanism
        has no such knob and is run once.
    settings : mapping
        Parameters that it has beside those of all.
    protects : str
        "record" or "sensitive_features"; the two are never in one picture.
    """

    name: str
    estimator: str
    knob: Callable[[float], Mapping[str, Any]] = field(default=lambda tolerance: {})
    settings: Mapping[str, Any] = field(default_factory=dict)
    protects: str = "record"

    @property
    def has_knob(self) -> bool:
        """Whether different tolerances are different models."""
        return bool(self.knob(0.1))

    def build(self, epsilon: float, tolerance: float | None, **common: Any) -> Any:
        """Make the estimator; parameters that it does not have are left out."""
        kind = getattr(skfairdp, self.estimator)
        chosen = {} if tolerance is None else dict(self.knob(tolerance))
        known = kind().get_params(deep=False)
        shared = {key: value for key, value in common.items() if key in known}
        return kind(epsilon=epsilon, **shared, **self.settings, **chosen)


MECHANISMS = (
    Mechanism("DP-SGD", "DPSGDClassifier"),
    Mechanism("FairDP, M = 1", "FairDPClassifier", settings={"max_head_norm": 1.0}),
    # A small head norm closes the gap and costs accuracy: FairDP's only knob.
    Mechanism("FairDP", "FairDPClassifier", knob=lambda t: {"max_head_norm": min(1.0, 5 * t)}),
    Mechanism("DPSGD-F", "DPSGDFClassifier"),
    Mechanism("DP-IS-SGD", "ImportanceSamplingDPSGDClassifier"),
    Mechanism("rate constraints", "RateConstrainedClassifier", knob=lambda t: {"tolerance": t}),
    Mechanism("DP-FERMI", "DPFermiClassifier", knob=lambda t: {"fairness_weight": 0.2 / t}),
    Mechanism("functional mechanism", "FunctionalMechanismClassifier"),
    Mechanism(
        "PF-LD",
        "LagrangianDualClassifier",
        knob=lambda t: {"tolerance": t},
        protects="sensitive_features",
    ),
    Mechanism("Mozannar et al.", "RandomizedAttributeClassifier", protects="sensitive_features"),
)


def present(protects: str = "record") -> tuple[Mechanism, ...]:
    """Mechanisms of the table that this version of the package has."""
    return tuple(m for m in MECHANISMS if hasattr(skfairdp, m.estimator) and m.protects == protects)
