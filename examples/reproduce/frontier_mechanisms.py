"""The one table of mechanisms that the frontier compares."""

from __future__ import annotations

import inspect
import math
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
        Name of the class in `skfairdp` that learns; a line whose class is not there is left
        out.
    knob : callable
        Maps a tolerance to parameters. An empty mapping for every tolerance: the mechanism
        has no such knob and is run once.
    settings : mapping
        Parameters of its own, which win over those of all.
    around : str or None
        Name of a class that is put around the estimator; the knob is then its.
    table_share : float
        Share of epsilon that `around` spends itself, on a table, before training.
    public : bool
        Whether it also learns from unlabelled public rows.
    protects : str
        "record" or "sensitive_features"; the two are never in one picture.
    """

    name: str
    estimator: str
    knob: Callable[[float], Mapping[str, Any]] = field(default=lambda tolerance: {})
    settings: Mapping[str, Any] = field(default_factory=dict)
    around: str | None = None
    table_share: float = 0.0
    public: bool = False
    protects: str = "record"

    @property
    def has_knob(self) -> bool:
        """Whether different tolerances are different models."""
        return bool(self.knob(0.1))

    def build(self, epsilon: float, tolerance: float | None, **common: Any) -> Any:
        """Make the estimator; common parameters that it does not have are left out."""
        kind = getattr(skfairdp, self.estimator)
        known = inspect.signature(kind).parameters
        shared = {key: value for key, value in common.items() if key in known}
        chosen = {} if tolerance is None else dict(self.knob(tolerance))
        own = {**shared, **self.settings}
        if self.around is None:
            return kind(**{**own, "epsilon": epsilon, **chosen})
        if self.table_share:
            chosen["epsilon_histogram"] = self.table_share * epsilon
        outer = getattr(skfairdp, self.around)
        if "random_state" in inspect.signature(outer).parameters:
            chosen["random_state"] = common.get("random_state")
        return outer(kind(**{**own, "epsilon": epsilon}), **chosen)


def _tolerance(tolerance: float) -> dict[str, Any]:
    return {"tolerance": tolerance}


def _gate(tolerance: float) -> dict[str, Any]:
    """FairPATE's gate over all cells needs at least 1/tolerance answers before it begins."""
    return {"tolerance": tolerance, "cold_start": max(20, math.ceil(round(1 / tolerance, 9)))}


def _norm(tolerance: float) -> float:
    return round(0.35 * (tolerance / 0.01) ** 0.36, 2)


# What the public preprocessing ends in.
BOUNDS = {"feature_bounds": (-1.0, 1.0)}
# Rate constraints and PF-LD are tuned, once for all data sets: they keep their documented defaults.
DEFAULTS = {"batch_size": "auto", "max_epochs": 30}

MECHANISMS = (
    Mechanism("DP-SGD", "DPSGDClassifier"),
    Mechanism("FairDP, M = 1", "FairDPClassifier", settings={"max_head_norm": 1.0}),
    # A small head norm closes the gap and costs accuracy: FairDP's only knob. From .35 to .8.
    Mechanism("FairDP, M < 1", "FairDPClassifier", knob=lambda t: {"max_head_norm": _norm(t)}),
    Mechanism("DPSGD-F", "DPSGDFClassifier"),
    Mechanism("DP-IS-SGD", "ImportanceSamplingDPSGDClassifier"),
    Mechanism("rate constraints", "RateConstrainedClassifier", knob=_tolerance, settings=DEFAULTS),
    Mechanism("DP-FERMI", "DPFermiClassifier", knob=lambda t: {"fairness_weight": 0.2 / t}),
    Mechanism(
        "thinning, DP-SGD",
        "DPSGDClassifier",
        knob=_tolerance,
        around="PrivateThinningClassifier",
        table_share=0.1,
    ),
    Mechanism(
        "smoothed DP-SGD",
        "DPSGDClassifier",
        knob=lambda t: {"std": 0.005 / t, "n_draws": 50},
        around="SmoothedClassifier",
    ),
    Mechanism("functional mechanism", "FunctionalMechanismClassifier", settings=BOUNDS),
    Mechanism(
        "FairFM",
        "FunctionalMechanismClassifier",
        settings={**BOUNDS, "objective": "group_average"},
    ),
    Mechanism("PATE", "PATEClassifier", public=True),
    Mechanism("FairPATE", "FairPATEClassifier", knob=_gate, public=True),
    Mechanism(
        "PF-LD",
        "LagrangianDualClassifier",
        knob=_tolerance,
        settings=DEFAULTS,
        protects="sensitive_features",
    ),
    Mechanism(
        "Mozannar et al.",
        "RandomizedAttributeClassifier",
        knob=_tolerance,
        protects="sensitive_features",
    ),
    Mechanism("SF-PATE", "SFPATEClassifier", protects="sensitive_features"),
)


def present() -> tuple[Mechanism, ...]:
    """Mechanisms of the table that this version of the package has."""
    needed = ((m, {m.estimator, m.around} - {None}) for m in MECHANISMS)
    return tuple(m for m, names in needed if names <= set(skfairdp.__all__))
