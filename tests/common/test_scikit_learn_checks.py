"""scikit-learn's own checks. Private noise may fail those that compare two fits, no others."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import check_estimator

from skfairdp import (
    DPAdditiveRegressor,
    DPSGDClassifier,
    DPSGDRegressor,
    FairDPClassifier,
)
from tests.common.halves import with_groups_made_up
from tests.common.roster import ROSTER, build

TWO_FITS = "compares two separate fits; each draws its own noise from the operating system"
EXPECTED = dict.fromkeys(
    ("check_fit_idempotent", "check_classifier_data_not_an_array", "check_supervised_y_2d"),
    TWO_FITS,
)
DRAWN = dict.fromkeys(
    ("check_classifiers_train", "check_classifiers_classes"),
    "predict draws a decision for each row; these checks expect the likelier class every time",
)
# Skips that are about the test environment or the declared tag, not about a missing feature.
SKIPPED = {
    "check_array_api_input": "SCIPY_ARRAY_API is not set",
    "check_pipeline_consistency": "non deterministic",
}


def unexpected(estimator: Any, expected: dict[str, str]) -> list[str]:
    """Names and errors of the checks that should have passed."""
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
    assert unexpected(kind(reproducible_noise=True, random_state=0), {}) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_fresh_noise_fails_only_checks_that_compare_two_fits(kind: type) -> None:
    assert unexpected(kind(max_epochs=2), EXPECTED) == []


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "DP-SGD" else pytest.mark.slow) for name in ROSTER],
)
def test_a_few_epochs_with_repeatable_noise_pass_all_checks(name: str) -> None:
    model = build(name, reproducible_noise=True, random_state=0)
    drawn = getattr(model, "prediction", "") == "gibbs" or getattr(model, "smoothing", None)
    assert unexpected(model, DRAWN if drawn else {}) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DPSGDRegressor, DPAdditiveRegressor])
@pytest.mark.parametrize("bounds", [(-1000.0, 1000.0), None])
def test_regressors_with_repeatable_noise_pass_all_checks(kind: type, bounds: object) -> None:
    settings = {"reproducible_noise": True, "random_state": 0, "max_epochs": 2}
    if kind is DPAdditiveRegressor:
        settings["bounds"] = (-100.0, 100.0)
    assert unexpected(kind(target_bounds=bounds, **settings), {}) == []


def test_a_broken_estimator_is_caught() -> None:
    class ForgetsClasses(DPSGDClassifier):
        def fit(self, X, y, *, sensitive_features=None):
            super().fit(X, y, sensitive_features=sensitive_features)
            del self.classes_
            return self

    broken = ForgetsClasses(reproducible_noise=True, random_state=0, max_epochs=1)
    assert any("check_classifiers_train" in line for line in unexpected(broken, {}))
