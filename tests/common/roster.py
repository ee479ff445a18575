"""Every estimator that the package exports, in the settings that the common checks go through."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

import skfairdp
from skfairdp import (
    AbstainingClassifier,
    CovarianceConstrainedClassifier,
    DPAdditiveClassifier,
    DPAdditiveRegressor,
    DPFermiClassifier,
    DPSGDClassifier,
    DPSGDFClassifier,
    DPSGDRegressor,
    FairDPClassifier,
    FairPATEClassifier,
    FairPathClassifier,
    FairPathRegressor,
    FunctionalMechanismClassifier,
    ImportanceSamplingDPSGDClassifier,
    LagrangianDualClassifier,
    LaplaceTransformer,
    PATEClassifier,
    PrivateFairEncoder,
    PrivateTableEncoder,
    PrivateThinningClassifier,
    RandomizedAttributeClassifier,
    RateConstrainedClassifier,
    SFPATEClassifier,
    SmoothedClassifier,
)
from tests.common.halves import (
    AdditiveOfLabels,
    DPSGDOfLabels,
    HalfPublicFairPATE,
    HalfPublicPATE,
    HalfPublicSFPATE,
    QuietFairNumbers,
    QuietFairPath,
    QuietFairPathOfThree,
)

# Six steps.
FAST: dict[str, Any] = {"max_epochs": 2, "batch_size": 100, "progress": False}

VOTES: dict[str, Any] = {"n_teachers": 40, "n_answers": 100, "progress": False}
# The rows of `people` lie within these bounds but for a few in a million.
_ROWS: Any = (-6.0, 6.0)
_DPSGD = DPSGDClassifier(**FAST)
_COSTS = {"no": 1.0, "yes": 5.0}
_FAIR_MODELS = FunctionalMechanismClassifier(
    _ROWS, objective="group_average", releases="group_models"
)

# Every exported estimator: of which kind it is, and the settings that are checked. The kinds
# go through checks of their own:
#   rows         a net and a record's guarantee; "grouped" without its own group sizes
#   attribute    protects the attribute alone; promises, and declares, other things
#   constrained  can't be fitted without groups, which scikit-learn's own checks do not pass
#   voting       needs public rows and has no net of its own: here every other row is public
#   closed form  without a net that is given
#   around       around another estimator, whose parameters it passes on
#   smoothed     like that, and post-processing
#   apart        around estimators of other libraries, or like them
#   releasing    releases rows, and takes no part in what predictions promise
#   tables       learns levels of columns, and predicts nothing
#   answering    decides about the answers of a fitted model
#   numbers      predicts numbers: here 0 for the label "no" and 1 for "yes"
SETTINGS: dict[type, tuple[str, dict[str, Any]]] = {
    DPSGDClassifier: (
        "rows",
        {"DP-SGD": _DPSGD, "DP-SGD, costs": DPSGDClassifier(costs=_COSTS, **FAST)},
    ),
    DPAdditiveClassifier: (
        "closed form",
        {
            "additive": DPAdditiveClassifier(_ROWS, n_bins=8, **FAST),
            "additive, pairs": DPAdditiveClassifier(_ROWS, n_bins=8, pairs=8, **FAST),
            "additive, costs": DPAdditiveClassifier(_ROWS, n_bins=8, costs=_COSTS, **FAST),
        },
    ),
    FairDPClassifier: (
        "rows",
        {
            "FairDP": FairDPClassifier(**FAST),
            "FairDP, five heads that vote": FairDPClassifier(n_heads=5, prediction="vote", **FAST),
            "FairDP, five heads, one drawn": FairDPClassifier(
                n_heads=5, prediction="gibbs", **FAST
            ),
            "FairDP, smoothed": FairDPClassifier(smoothing=0.5, **FAST),
            "FairDP, sums of groups": FairDPClassifier(group_update="sum", **FAST),
            "FairDP, balanced": FairDPClassifier(sampling="balanced", **FAST),
            "FairDP, group models": FairDPClassifier(releases="group_models", **FAST),
        },
    ),
    DPSGDFClassifier: ("rows", {"DPSGD-F": DPSGDFClassifier(**FAST)}),
    ImportanceSamplingDPSGDClassifier: (
        "rows",
        {"DP-IS-SGD": ImportanceSamplingDPSGDClassifier(**FAST)},
    ),
    DPFermiClassifier: (
        "grouped",
        {
            "DP-FERMI": DPFermiClassifier(**FAST),
            "DP-FERMI, equalized odds": DPFermiClassifier(notion="equalized_odds", **FAST),
        },
    ),
    PrivateThinningClassifier: (
        "around",
        {
            "thinning before DP-SGD": PrivateThinningClassifier(
                DPSGDClassifier(**FAST), epsilon_histogram=0.1
            ),
            "thinning before FairDP": PrivateThinningClassifier(
                FairDPClassifier(**FAST), epsilon_histogram=0.1
            ),
        },
    ),
    LagrangianDualClassifier: (
        "attribute",
        {
            "PF-LD": LagrangianDualClassifier(warmup_epochs=2, **FAST),
            "PF-LD, dual steps by epochs": LagrangianDualClassifier(
                warmup_epochs=2, dual="epochs", **FAST
            ),
        },
    ),
    RateConstrainedClassifier: (
        "constrained",
        {
            "rate constraints": RateConstrainedClassifier(**FAST),
            "rate constraints, two notions": RateConstrainedClassifier(
                notion=["equalized_odds", "accuracy_parity"], tolerance=0.1, **FAST
            ),
        },
    ),
    FairPathClassifier: (
        "constrained",
        {
            # Two epochs leave it, in a quarter of fits, no better than a coin.
            "fair path": QuietFairPath(max_epochs=10, batch_size=100, progress=False),
            "fair path, equalised odds": QuietFairPath(
                notion="equalized_odds",
                tolerance=0.9,
                max_epochs=10,
                batch_size=100,
                progress=False,
            ),
            # Tables of several classes carry more noise.
            "fair path, three classes": QuietFairPathOfThree(
                tolerance=0.9, max_epochs=10, batch_size=100, progress=False
            ),
            # A wide tolerance: equal accuracy may cost all of it on so few rows.
            "fair path, accuracy parity": QuietFairPath(
                notion="accuracy_parity",
                tolerance=0.9,
                max_epochs=10,
                batch_size=100,
                progress=False,
            ),
        },
    ),
    PATEClassifier: ("voting", {"PATE": HalfPublicPATE(**VOTES)}),
    FairPATEClassifier: (
        "voting",
        {"FairPATE": HalfPublicFairPATE(tolerance=0.2, cold_start=5, **VOTES)},
    ),
    SFPATEClassifier: (
        "voting",
        {
            "SF-PATE, fair student": HalfPublicSFPATE(**VOTES),
            "SF-PATE, fair teachers": HalfPublicSFPATE(variant="fair_teachers", **VOTES),
        },
    ),
    FunctionalMechanismClassifier: (
        "closed form",
        {
            "FM": FunctionalMechanismClassifier(_ROWS),
            "FM, Laplace": FunctionalMechanismClassifier(_ROWS, noise="laplace"),
            "FM, Laplace as published": FunctionalMechanismClassifier(
                _ROWS, noise="laplace", sensitivity="published"
            ),
            "FairFM": FunctionalMechanismClassifier(_ROWS, objective="group_average"),
            "FairFM, Laplace": FunctionalMechanismClassifier(
                _ROWS, objective="group_average", noise="laplace"
            ),
            "FairFM, group models": _FAIR_MODELS,
        },
    ),
    SmoothedClassifier: (
        "smoothed",
        {
            "FM-Smooth": SmoothedClassifier(FunctionalMechanismClassifier(_ROWS)),
            "FairFM-Smooth": SmoothedClassifier(_FAIR_MODELS),
            "FairSmooth of FM": SmoothedClassifier(
                FunctionalMechanismClassifier(_ROWS), training="per_group"
            ),
            "DPSGD-Smooth": SmoothedClassifier(_DPSGD, n_draws=20, std=0.1),
            "DPSGD-Smooth, head": SmoothedClassifier(_DPSGD, part="head"),
            "FairSmooth of DP-SGD": SmoothedClassifier(
                _DPSGD, training="per_group", n_draws=20, std=0.1
            ),
        },
    ),
    RandomizedAttributeClassifier: (
        "apart",
        {
            "randomised attribute": RandomizedAttributeClassifier(max_iter=2),
            "randomised attribute, two steps": RandomizedAttributeClassifier(
                group_at_predict="randomized", max_iter=2
            ),
        },
    ),
    CovarianceConstrainedClassifier: (
        "apart",
        {"covariance, not private": CovarianceConstrainedClassifier()},
    ),
    LaplaceTransformer: ("releasing", {"Laplace noise": LaplaceTransformer()}),
    PrivateFairEncoder: (
        "releasing",
        {
            "encoder": PrivateFairEncoder(**FAST),
            "encoder, trained privately": PrivateFairEncoder(train_privately=True, **FAST),
        },
    ),
    PrivateTableEncoder: ("tables", {"table": PrivateTableEncoder(epsilon=1.0)}),
    AbstainingClassifier: ("answering", {"abstaining": AbstainingClassifier(_DPSGD)}),
    DPSGDRegressor: (
        "numbers",
        {
            "DP-SGD, numbers": DPSGDOfLabels(target_bounds=(-1.0, 2.0), **FAST),
            "DP-SGD, bounds bought": DPSGDOfLabels(**FAST),
        },
    ),
    FairPathRegressor: (
        "numbers",
        {
            "fair numbers": QuietFairNumbers(target_bounds=(-1.0, 2.0), **FAST),
            "fair means, bounds bought": QuietFairNumbers(notion="mean_gap", **FAST),
        },
    ),
    DPAdditiveRegressor: (
        "numbers",
        {
            "additive, numbers": AdditiveOfLabels(
                _ROWS, target_bounds=(-1.0, 2.0), n_bins=8, **FAST
            ),
            "additive, Huber": AdditiveOfLabels(
                _ROWS, target_bounds=(-1.0, 2.0), n_bins=8, loss="huber", **FAST
            ),
            "additive, numbers, pairs": AdditiveOfLabels(
                _ROWS, target_bounds=(-1.0, 2.0), n_bins=8, pairs=8, **FAST
            ),
        },
    ),
}


def exported(package: ModuleType = skfairdp) -> dict[str, type]:
    """Every estimator that a package exports, as `sklearn.utils.all_estimators` finds them."""
    values = {name: getattr(package, name) for name in package.__all__}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, type) and issubclass(value, BaseEstimator)
    }


def settings_of(package: ModuleType = skfairdp) -> dict[str, tuple[str, Any]]:
    """Kind and estimator of every setting, by its name; fails where an estimator has none."""
    found = exported(package)
    missing = [name for name, value in found.items() if value not in SETTINGS]
    assert not missing, f"give {missing} settings in tests/common/roster.py"
    gone = [kind.__name__ for kind in SETTINGS if kind not in found.values()]
    assert not gone, f"{gone} are exported no more: remove their settings"
    return {
        name: (kind, estimator)
        for kind, settings in SETTINGS.values()
        for name, estimator in settings.items()
    }


EVERY = settings_of()


def of(*kinds: str) -> dict[str, Any]:
    """Estimators of some kinds, by the names of their settings."""
    return {name: estimator for name, (kind, estimator) in EVERY.items() if kind in kinds}


ROSTER, NEEDS_GROUPS = of("rows", "grouped"), of("grouped")
AROUND, ATTRIBUTE, CONSTRAINED = of("around"), of("attribute"), of("constrained")
VOTING, CLOSED_FORM, SMOOTHED, APART = of("voting"), of("closed form"), of("smoothed"), of("apart")
RELEASING, ANSWERING, TABLES = of("releasing"), of("answering"), of("tables")
NUMBERS = of("numbers")

# One setting of each class is checked at once, the others among the slow tests.
FIRST = {next(iter(named)) for _, named in SETTINGS.values()}


def each(names: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test for every setting of these, and mark all but the first of a class as slow."""
    marks = [n if n in FIRST else pytest.param(n, marks=pytest.mark.slow) for n in names]
    return pytest.mark.parametrize("name", marks)


every_constrained = each(CONSTRAINED)
every_attribute = each(ATTRIBUTE)
every_closed_form = each(CLOSED_FORM)
every_smoothed = each(SMOOTHED)
every_estimator = each(ROSTER)
every_regressor = each(NUMBERS)
every_voting = each(VOTING)
every_class = pytest.mark.parametrize("name", ["DP-SGD", "FairDP"])


def build(name: str, **parameters: Any) -> Any:
    """Return a fresh estimator of the roster."""
    return clone(EVERY[name][1]).set_params(**parameters)


def small_batches(estimator: Any) -> dict[str, str]:
    """Parameters with which it takes a tenth of the rows in a step, however few they are."""
    given = estimator.get_params().items()
    return {
        name: "auto"
        for name, value in given
        if name.endswith("batch_size") and value == FAST["batch_size"]
    }


def build_small(name: str, **parameters: Any) -> Any:
    """Return a fresh estimator of the roster for less than 100 rows."""
    model = build(name, **parameters)
    return model.set_params(**small_batches(model))


def costs_of(name: str, labels: Iterable[Any]) -> dict[str, Any]:
    """Costs of a setting, if it states some, for other labels than those of `people`."""
    stated = getattr(EVERY[name][1], "costs", None)
    return {} if stated is None else {"costs": dict(zip(labels, stated.values(), strict=True))}


@cache
def once(name: str, **parameters: Any) -> Any:
    """Return an estimator fitted on `people`, shared by all checks that do not change it."""
    X, y, groups = people()
    return build(name, **parameters).fit(X, y, sensitive_features=groups)


def people(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of shape (n, 4), labels "no" and "yes", groups "a" and "b"; every cell is filled."""
    X, y, groups = _people(n, seed)
    return X.copy(), y.copy(), groups.copy()


@cache
def _people(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.array(["a", "a", "b"])[np.arange(n) % 3]
    positive = rng.random(n) < np.where(groups == "a", 0.6, 0.4)
    X = rng.normal(size=(n, 4)) + positive[:, None] * np.array([1.5, 1.0, 0.0, 0.0])
    return X, np.where(positive, "yes", "no"), groups
