"""Every estimator of the package, in the settings that the common checks go through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from skfairdp import (
    CovarianceConstrainedClassifier,
    DPFermiClassifier,
    DPSGDClassifier,
    DPSGDFClassifier,
    FairDPClassifier,
    FunctionalMechanismClassifier,
    ImportanceSamplingDPSGDClassifier,
    LagrangianDualClassifier,
    PrivateThinningClassifier,
    RandomizedAttributeClassifier,
    RateConstrainedClassifier,
    SmoothedClassifier,
)
from tests.common.halves import HalfPublicFairPATE, HalfPublicPATE, HalfPublicSFPATE

FAST: dict[str, Any] = {"max_epochs": 2, "progress": False}

ROSTER = {
    "DP-SGD": DPSGDClassifier(**FAST),
    "FairDP": FairDPClassifier(**FAST),
    "FairDP, five heads that vote": FairDPClassifier(n_heads=5, prediction="vote", **FAST),
    "FairDP, five heads, one drawn": FairDPClassifier(n_heads=5, prediction="gibbs", **FAST),
    "FairDP, smoothed": FairDPClassifier(smoothing=0.5, **FAST),
    "FairDP, sums of groups": FairDPClassifier(group_update="sum", **FAST),
    "FairDP, balanced": FairDPClassifier(sampling="balanced", **FAST),
    "FairDP, group models": FairDPClassifier(releases="group_models", **FAST),
    "DPSGD-F": DPSGDFClassifier(**FAST),
    "DP-IS-SGD": ImportanceSamplingDPSGDClassifier(**FAST),
    "DP-FERMI": DPFermiClassifier(**FAST),
    "DP-FERMI, equalized odds": DPFermiClassifier(notion="equalized_odds", **FAST),
}

# Of these, what cannot be fitted without groups, which scikit-learn's own checks do not pass.
NEEDS_GROUPS = ("DP-FERMI", "DP-FERMI, equalized odds")

# Estimators around another one have other parameters; their own tests call the common checks
# that need none.
AROUND = {
    "thinning before DP-SGD": PrivateThinningClassifier(
        DPSGDClassifier(epsilon=0.9, **FAST), epsilon_histogram=0.1
    ),
    "thinning before FairDP": PrivateThinningClassifier(
        FairDPClassifier(epsilon=0.9, **FAST), epsilon_histogram=0.1
    ),
}

# Those that protect the attribute alone: they promise, and declare, other things.
ATTRIBUTE = {
    "PF-LD": LagrangianDualClassifier(warmup_epochs=2, **FAST),
    "PF-LD, dual steps by epochs": LagrangianDualClassifier(warmup_epochs=2, dual="epochs", **FAST),
}

# Those that cannot be fitted without groups, which scikit-learn's own checks do not pass.
CONSTRAINED = {
    "rate constraints": RateConstrainedClassifier(**FAST),
    "rate constraints, two notions": RateConstrainedClassifier(
        notion=["equalized_odds", "accuracy_parity"], tolerance=0.1, **FAST
    ),
}

VOTES: dict[str, Any] = {"n_teachers": 40, "n_answers": 100, "progress": False}

# Those that learn from votes need public rows and have no net of their own: here every other
# row is public. Their own tests call the common checks.
VOTING = {
    "PATE": HalfPublicPATE(**VOTES),
    "FairPATE": HalfPublicFairPATE(tolerance=0.2, cold_start=5, **VOTES),
    "SF-PATE, fair student": HalfPublicSFPATE(**VOTES),
    "SF-PATE, fair teachers": HalfPublicSFPATE(variant="fair_teachers", **VOTES),
}

# In closed form, without a net: their own tests call the common checks that need none. The
# rows of `people` lie within the bounds but for a few in a million.
_ROWS: Any = (-6.0, 6.0)
CLOSED_FORM = {
    "FM": FunctionalMechanismClassifier(_ROWS),
    "FM, Laplace": FunctionalMechanismClassifier(_ROWS, noise="laplace"),
    "FM, Laplace as published": FunctionalMechanismClassifier(
        _ROWS, noise="laplace", sensitivity="published"
    ),
    "FairFM": FunctionalMechanismClassifier(_ROWS, objective="group_average"),
    "FairFM, Laplace": FunctionalMechanismClassifier(
        _ROWS, objective="group_average", noise="laplace"
    ),
    "FairFM, group models": FunctionalMechanismClassifier(
        _ROWS, objective="group_average", releases="group_models"
    ),
}

# Around another estimator, like AROUND, and post-processing.
SMOOTHED = {
    "FM-Smooth": SmoothedClassifier(FunctionalMechanismClassifier(_ROWS)),
    "FairFM-Smooth": SmoothedClassifier(CLOSED_FORM["FairFM, group models"]),
    "FairSmooth of FM": SmoothedClassifier(
        FunctionalMechanismClassifier(_ROWS), training="per_group"
    ),
    "DPSGD-Smooth": SmoothedClassifier(DPSGDClassifier(**FAST), n_draws=20, std=0.1),
    "DPSGD-Smooth, head": SmoothedClassifier(DPSGDClassifier(**FAST), part="head"),
    "FairSmooth of DP-SGD": SmoothedClassifier(
        DPSGDClassifier(**FAST), training="per_group", n_draws=20, std=0.1
    ),
}

# Around estimators of other libraries, or like them: with parameters of neither kind.
APART = {
    "randomised attribute": RandomizedAttributeClassifier(max_iter=3),
    "randomised attribute, two steps": RandomizedAttributeClassifier(
        group_at_predict="randomized", max_iter=3
    ),
    "covariance, not private": CovarianceConstrainedClassifier(),
}

every_constrained = pytest.mark.parametrize("name", CONSTRAINED)
every_attribute = pytest.mark.parametrize("name", ATTRIBUTE)
every_closed_form = pytest.mark.parametrize("name", CLOSED_FORM)
every_smoothed = pytest.mark.parametrize("name", SMOOTHED)
every_estimator = pytest.mark.parametrize("name", ROSTER)
every_voting = pytest.mark.parametrize("name", VOTING)
every_class = pytest.mark.parametrize("name", ["DP-SGD", "FairDP"])


def build(name: str, **parameters: Any) -> Any:
    """Return a fresh estimator of the roster."""
    every = {
        **ROSTER,
        **AROUND,
        **ATTRIBUTE,
        **CONSTRAINED,
        **VOTING,
        **CLOSED_FORM,
        **SMOOTHED,
        **APART,
    }
    return clone(every[name]).set_params(**parameters)


def people(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of shape (n, 4), labels "no" and "yes", groups "a" and "b"; every cell is filled."""
    rng = np.random.default_rng(seed)
    groups = np.array(["a", "a", "b"])[np.arange(n) % 3]
    positive = rng.random(n) < np.where(groups == "a", 0.6, 0.4)
    X = rng.normal(size=(n, 4)) + positive[:, None] * np.array([1.5, 1.0, 0.0, 0.0])
    return X, np.where(positive, "yes", "no"), groups
