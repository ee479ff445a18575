"""scikit-learn's own checks. Private noise may fail those that compare two fits, no others."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import check_estimator

import skfairdp
from skfairdp import (
    DPAdditiveRegressor,
    DPSGDClassifier,
    DPSGDRegressor,
    FairDPClassifier,
    FairPathRegressor,
    comparators,
    model_selection,
    preprocessing,
    representation,
)
from skfairdp.base.expected_checks import DRAWN_DECISIONS
from tests.common.halves import with_groups_made_up
from tests.common.roster import ROSTER, build


def public_estimators() -> list[type]:
    modules = skfairdp, comparators, model_selection, preprocessing, representation
    found = {getattr(module, name) for module in modules for name in module.__all__}
    return sorted(
        (kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseEstimator)),
        key=lambda kind: kind.__name__,
    )


# Skips that are about the test environment or the declared tag, not about a missing feature.
SKIPPED = {
    "check_array_api_input": "SCIPY_ARRAY_API is not set",
    "check_pipeline_consistency": "non deterministic",
}


def unexpected(estimator: Any) -> list[str]:
    """Names and errors of the checks that fail and that the estimator's tag does not name."""
    expected = get_tags(estimator).expected_failed_checks
    results = check_estimator(
        with_groups_made_up(estimator), expected_failed_checks=expected, on_fail=None, on_skip=None
    )
    assert len(results) > 40
    return [
        f"{result['check_name']}: {result['status']}, {result['exception']!r}"
        for result in results
        if result["status"] not in {"passed", "xfail"}
        and SKIPPED.get(result["check_name"], "\0") not in str(result["exception"])
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_default_parameters_with_repeatable_noise_pass_all_checks(kind: type) -> None:
    model = kind(reproducible_noise=True, random_state=0)
    assert get_tags(model).expected_failed_checks == {}
    assert unexpected(model) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_fresh_noise_fails_only_checks_that_compare_two_fits(kind: type) -> None:
    assert unexpected(kind(max_epochs=2)) == []


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "DP-SGD" else pytest.mark.slow) for name in ROSTER],
)
def test_a_few_epochs_with_repeatable_noise_pass_all_checks(name: str) -> None:
    model = build(name, reproducible_noise=True, random_state=0)
    assert set(get_tags(model).expected_failed_checks) <= set(DRAWN_DECISIONS)
    assert unexpected(model) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DPSGDRegressor, DPAdditiveRegressor])
@pytest.mark.parametrize("bounds", [(-1000.0, 1000.0), None])
def test_regressors_with_repeatable_noise_pass_all_checks(kind: type, bounds: object) -> None:
    settings = {"reproducible_noise": True, "random_state": 0, "max_epochs": 2}
    if kind is DPAdditiveRegressor:
        settings["bounds"] = (-100.0, 100.0)
    assert unexpected(kind(target_bounds=bounds, **settings)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DPSGDRegressor, DPAdditiveRegressor, FairPathRegressor])
@pytest.mark.filterwarnings("ignore:The tables do not show")
def test_fresh_noise_of_regressors_fails_only_checks_that_compare_two_fits(kind: type) -> None:
    bounds = {"bounds": (-100.0, 100.0)} if kind is DPAdditiveRegressor else {}
    assert unexpected(kind(target_bounds=(-1000.0, 1000.0), max_epochs=2, **bounds)) == []


@pytest.mark.campaign
@pytest.mark.parametrize("name", ROSTER)
def test_fresh_noise_fails_only_checks_that_the_tag_names(name: str) -> None:
    assert unexpected(build(name)) == []


def test_a_broken_estimator_is_caught() -> None:
    class ForgetsClasses(DPSGDClassifier):
        def fit(self, X, y, *, sensitive_features=None):
            super().fit(X, y, sensitive_features=sensitive_features)
            del self.classes_
            return self

    broken = ForgetsClasses(reproducible_noise=True, random_state=0, max_epochs=1)
    assert any("check_classifiers_train" in line for line in unexpected(broken))


def made(kind: type) -> Any:
    """An estimator with as little as its constructor asks for."""
    signature = inspect.signature(kind).parameters.values()
    required = [p.name for p in signature if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    given = {"estimator": DPSGDClassifier(), "param_distributions": {}, "bounds": {}}
    return kind(**{name: given.get(name, {}) for name in required})


@pytest.mark.parametrize("kind", public_estimators(), ids=lambda kind: kind.__name__)
def test_every_public_estimator_lists_the_checks_that_it_fails(kind: type) -> None:
    listed = get_tags(made(kind)).expected_failed_checks
    known = {name for name in dir(estimator_checks) if name.startswith("check_")}
    assert set(listed) <= known
    assert all(listed.values())


def test_repeatable_noise_and_fresh_noise_differ_in_the_tag() -> None:
    fresh, repeatable = (DPSGDClassifier(reproducible_noise=each) for each in (False, True))
    assert "check_fit_idempotent" in get_tags(fresh).expected_failed_checks
    assert get_tags(repeatable).expected_failed_checks == {}
