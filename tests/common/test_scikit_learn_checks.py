"""scikit-learn's own checks. Private noise may fail those that compare two fits, no others."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import check_estimator

import skfairdp
from skfairdp import (
    CovarianceConstrainedClassifier,
    DPAdditiveRegressor,
    DPSGDClassifier,
    DPSGDRegressor,
    FairDPClassifier,
    FairPathRegressor,
    aggregation,
    comparators,
    model_selection,
    preprocessing,
    representation,
)
from skfairdp.aggregation import ReweighedClassifier
from skfairdp.base.predictors import DRAWN_DECISIONS
from skfairdp.model_selection import PrivateSearchCV
from skfairdp.preprocessing import PublicBinner, PublicEncoder, PublicScaler
from tests.common.halves import with_costs_of_any_labels, with_groups_made_up
from tests.common.roster import (
    ATTRIBUTE,
    CONSTRAINED,
    EVERY,
    FIRST,
    ROSTER,
    VOTING,
    build,
    small_batches,
)
from tests.comparators.makings import EVERY as COMPARED


def public_estimators() -> list[type]:
    modules = skfairdp, aggregation, comparators, model_selection, preprocessing, representation
    found = {getattr(module, name) for module in modules for name in module.__all__}
    return sorted(
        (kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseEstimator)),
        key=lambda kind: kind.__name__,
    )


# Skips that are about the test environment or the declared tag, not about a missing feature.
SKIPPED = {
    "check_array_api_input": "SCIPY_ARRAY_API is not set",
    "check_pipeline_consistency": "non deterministic",
    "check_transformer_data_not_an_array": "non deterministic",
    "check_transformer_general": "non deterministic",
}
# The tables of the checks are small, down to ten rows.
_FEW_VOTES = {"n_teachers": 3, "epsilon": None, "vote_noise": 0.5, "n_answers": None}
SMALL: dict[str, dict[str, Any]] = {
    "PATE": _FEW_VOTES,
    "FairPATE": {**_FEW_VOTES, "tolerance": 1.0, "cold_start": 1},
    "SF-PATE, fair student": _FEW_VOTES,
}
APART_FROM_THE_ROSTER = (
    PublicBinner((-100.0, 100.0), n_bins=4, encoding="onehot", sparse_output=False),
    PublicEncoder({}),
    PublicScaler((-100.0, 100.0)),
    PrivateSearchCV(
        DPSGDClassifier(max_epochs=1), {"net__lr": [0.1, 0.2]}, n_iter=2, epsilon=50.0, delta=1e-4
    ),
    PrivateSearchCV(
        DPSGDRegressor(target_bounds=(-1000.0, 1000.0), max_epochs=1),
        {"net__lr": [0.1, 0.2]},
        n_iter=2,
        epsilon=50.0,
        delta=1e-4,
    ),
    ReweighedClassifier(),
)
# One setting of each class whose settings are not all gone through below.
OTHERS = [name for name in EVERY if name in FIRST and name not in ROSTER]
# These pass all checks among other slow tests: below, or in the files of their kinds.
ELSEWHERE = {*ATTRIBUTE, *CONSTRAINED, *VOTING, "DP-SGD, numbers", "additive, numbers"}
ELSEWHERE |= {"abstaining", "encoder", "fair numbers", "randomised attribute"}
ELSEWHERE |= {"thinning before DP-SGD"}


def unexpected(estimator: Any, brief: bool = True) -> list[str]:
    """Names and errors of the checks that fail and that the estimator's tag does not name.

    `brief`: fit for one epoch, as the checks ask no accuracy of what has noise.
    """
    expected = get_tags(estimator).expected_failed_checks
    model = with_costs_of_any_labels(in_brief(estimator) if brief else estimator)
    model = with_groups_made_up(model)
    results = check_estimator(model, expected_failed_checks=expected, on_fail=None, on_skip=None)
    assert len(results) > 40
    return [
        f"{result['check_name']}: {result['status']}, {result['exception']!r}"
        for result in results
        if result["status"] not in {"passed", "xfail"}
        and SKIPPED.get(result["check_name"], "\0") not in str(result["exception"])
    ]


def in_brief(estimator: Any) -> Any:
    """The same estimator, and those inside of it, with one epoch where they take several."""
    ends = ("max_epochs", "warmup_epochs")
    brief = {name: 1 for name in estimator.get_params() if name.endswith(ends)}
    return clone(estimator).set_params(**brief, **small_batches(estimator))


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(DPSGDClassifier, marks=pytest.mark.slow),
        pytest.param(FairDPClassifier, marks=pytest.mark.campaign),
    ],
)
def test_default_parameters_with_repeatable_noise_pass_all_checks(kind: type) -> None:
    model = kind(reproducible_noise=True, random_state=0)
    assert get_tags(model).expected_failed_checks == {}
    assert unexpected(model, brief=False) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_fresh_noise_fails_only_checks_that_compare_two_fits(kind: type) -> None:
    assert unexpected(kind(max_epochs=2)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ROSTER)
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


def test_every_public_estimator_goes_through_all_checks() -> None:
    checked = [*(build(name) for name in (*ROSTER, *OTHERS)), *APART_FROM_THE_ROSTER]
    kinds = {kind for model in checked for kind in type(model).__mro__}
    # tests/comparators/test_base.py gives the encoders groups, in `transform` too.
    assert [kind for kind in public_estimators() if kind not in {*kinds, *COMPARED}] == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.campaign if name in ELSEWHERE else pytest.mark.slow)
        for name in OTHERS
    ],
)
def test_every_class_fails_only_checks_that_its_tag_names(name: str) -> None:
    assert unexpected(build(name, **SMALL.get(name, {}))) == []


@pytest.mark.parametrize(
    "model",
    [
        each if get_tags(each).transformer_tags else pytest.param(each, marks=pytest.mark.slow)
        for each in APART_FROM_THE_ROSTER
    ],
    ids=lambda each: f"{type(each).__name__}, {get_tags(each).estimator_type}",
)
def test_public_steps_searches_and_teachers_fail_only_checks_that_their_tags_name(
    model: Any,
) -> None:
    assert unexpected(model) == []


@pytest.mark.slow
def test_decisions_that_may_correlate_with_groups_pass_the_check_that_the_tag_names() -> None:
    model = CovarianceConstrainedClassifier(max_covariance=10.0)
    (named,) = get_tags(model).expected_failed_checks
    results = check_estimator(with_groups_made_up(model), on_fail=None, on_skip=None)
    assert {r["status"] for r in results if r["check_name"] == named} == {"passed"}


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
