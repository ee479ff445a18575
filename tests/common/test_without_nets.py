"""Estimators without a net of their own, under the checks that the others go through."""

from __future__ import annotations

import copy
import math
import pickle
import random
from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from skfairdp import (
    DPSGDClassifier,
    FunctionalMechanismClassifier,
    PrivateThinningClassifier,
    SmoothedClassifier,
    certify,
)
from skfairdp.additive.design import Design
from skfairdp.base.predictors import DRAWN_DECISIONS, FRESH_FITS
from skfairdp.exceptions import PrivacyWarning
from skfairdp.preprocessing import PublicScaler
from tests.common.roster import CLOSED_FORM, SMOOTHED, build, every_closed_form, once, people
from tests.common.test_nothing_private_is_kept import fitted_names, traces
from tests.common.test_refusals import BAD_ROWS, PLANTED_AS_SHOWN, SECRET, planted_people
from tests.common.test_scikit_learn_checks import unexpected
from tests.privacy.oracle import oracle_epsilons

every_one = pytest.mark.parametrize("name", [*CLOSED_FORM, *SMOOTHED])
one_of_a_kind = pytest.mark.parametrize("name", ["FM", "FairFM", "FM-Smooth", "FairSmooth of FM"])
SIZES = {"a": 200, "b": 100}
REPEATABLE = {"reproducible_noise": True, "random_state": 0}


def repeatable(name: str) -> Any:
    if name in CLOSED_FORM:
        return build(name, **REPEATABLE)
    inner = {f"estimator__{key}": value for key, value in REPEATABLE.items()}
    return build(name, random_state=0, **inner)


def fit(model: Any, n: int = 300) -> Any:
    X, y, groups = people(n)
    return model.fit(X, y, sensitive_features=groups)


FM_CHECKS = FunctionalMechanismClassifier((-20.0, 20.0), epsilon=20.0, max_row_norm=20.0)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(FunctionalMechanismClassifier((-20.0, 20.0)), marks=pytest.mark.slow),
        FM_CHECKS,
        SmoothedClassifier(FM_CHECKS, decision="threshold"),
        pytest.param(
            SmoothedClassifier(LogisticRegression(), decision="threshold"), marks=pytest.mark.slow
        ),
        pytest.param(
            SmoothedClassifier(DPSGDClassifier(max_epochs=2), n_draws=5, decision="threshold"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["default", "little noise", "smoothed", "smoothed scikit-learn", "smoothed net"],
)
def test_scikit_learns_checks_pass_with_repeatable_noise(model: Any) -> None:
    model = clone(model)
    inner = getattr(model, "estimator", model)
    if hasattr(inner, "reproducible_noise"):
        inner.set_params(**REPEATABLE)
    assert unexpected(model.set_params(random_state=0)) == []


def test_drawn_decisions_fail_only_checks_that_expect_the_likelier_class() -> None:
    model = SmoothedClassifier(clone(FM_CHECKS).set_params(**REPEATABLE), random_state=0)
    # Draws may come out as expected by chance.
    assert set(get_tags(model).expected_failed_checks) == set(DRAWN_DECISIONS)
    assert unexpected(model) == []


def test_fresh_noise_fails_only_checks_that_compare_two_fits() -> None:
    assert set(get_tags(FM_CHECKS).expected_failed_checks) == set(FRESH_FITS)
    assert unexpected(clone(FM_CHECKS)) == []


@every_closed_form
@pytest.mark.parametrize("parameters", [{}, {"epsilon": None, "noise_multiplier": 1.1}], ids=str)
def test_epsilon_is_that_of_the_plan(name: str, parameters: dict) -> None:
    model = once(name, **parameters)
    privacy = certify(model).privacy
    expected = oracle_epsilons(model.plan_, model.delta)
    assert privacy.delta == model.delta
    assert max(expected.values()) * 0.997 <= privacy.epsilon <= max(expected.values()) * 1.02
    for group, epsilon in (privacy.per_group or {}).items():
        assert expected[group] * 0.997 <= epsilon <= expected[group] * 1.02
    assert (privacy.per_group is not None) == name.startswith("Fair")
    if not parameters:
        assert 0.97 <= privacy.epsilon <= 1.0


@every_one
def test_privacy_is_that_of_the_training_and_smoothing_is_free(name: str) -> None:
    privacy = certify(once(name)).privacy
    assert 0.95 <= privacy.epsilon <= 1.0
    assert (privacy.adjacency, privacy.protects) == ("zero-out", "record")
    assert type(privacy).from_dict(privacy.to_dict()) == privacy


@every_one
def test_repeatable_noise_voids_the_certificate(name: str) -> None:
    privacy = certify(fit(repeatable(name))).privacy
    assert math.isinf(privacy.epsilon)
    assert "reproducible_noise" in privacy.assumptions[0]


@every_one
def test_infinite_epsilon_warns_and_promises_nothing(name: str) -> None:
    key = "epsilon" if name in CLOSED_FORM else "estimator__epsilon"
    with pytest.warns(PrivacyWarning, match="epsilon=inf"):
        model = fit(build(name, **{key: math.inf}))
    certificate = certify(model)
    assert certificate.privacy is None
    assert not certificate.satisfies(epsilon=1e9)
    X, y, _ = people()
    assert model.score(X, y) > 0.5


def declared(name: str) -> dict[str, Any]:
    if name in {"FairSmooth of FM", "FairSmooth of DP-SGD"} or name.startswith("FairFM"):
        key = "group_sizes" if name != "FairFM-Smooth" else "estimator__group_sizes"
        return {key: SIZES}
    return {"dataset_size" if name in CLOSED_FORM else "estimator__dataset_size": 300}


def plans(model: Any) -> list[Any]:
    inner = getattr(model, "estimators_", None) or [getattr(model, "estimator_", model)]
    return [part.plan_ for part in inner]


@every_one
def test_the_plan_of_declared_sizes_does_not_depend_on_the_rows(name: str) -> None:
    X, y, groups = people()
    whole = build(name, **declared(name)).fit(X, y, sensitive_features=groups)
    without = build(name, **declared(name)).fit(X[1:], y[1:], sensitive_features=groups[1:])
    assert plans(whole) == plans(without)
    for model in (whole, without):
        assert certify(model).satisfies(epsilon=1.0, adjacency="add-remove")


@pytest.mark.parametrize("name", ["FairFM", "FairFM, group models", "FairSmooth of FM"])
def test_a_declared_group_without_rows_still_trains(name: str) -> None:
    X, y, groups = people()
    model = build(name, group_sizes={**SIZES, "c": 20}).fit(X, y, sensitive_features=groups)
    assert model.groups_ == ("a", "b", "c")
    assert set(certify(model).privacy.per_group) == {"a", "b", "c"}
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("name", ["FairFM", "FairFM, Laplace", "FairSmooth of FM"])
def test_rows_of_undeclared_groups_contribute_nothing(name: str) -> None:
    X, y, groups = people()
    wild = np.where(np.arange(300) < 40, "elsewhere", groups)
    known = wild != "elsewhere"
    with_them = repeatable(name).set_params(group_sizes=SIZES)
    with_them.fit(np.where(known[:, None], X, 1e6), y, sensitive_features=wild)
    alone = repeatable(name).set_params(group_sizes=SIZES)
    alone.fit(X[known], y[known], sensitive_features=wild[known])
    assert np.array_equal(with_them.predict_proba(X), alone.predict_proba(X))


@one_of_a_kind
def test_labels_that_were_not_declared_contribute_nothing(name: str) -> None:
    X, y, groups = people()
    wild = y.astype(object)
    wild[:30] = "other"
    key = "classes" if name in CLOSED_FORM else "estimator__classes"
    sizes = {"group_sizes": SIZES} if "Fair" in name else declared(name)
    models = [repeatable(name).set_params(**{key: ["no", "yes"]}, **sizes) for _ in range(2)]
    models[0].fit(X, wild, sensitive_features=groups)
    models[1].fit(X[30:], y[30:], sensitive_features=groups[30:])
    assert models[0].classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(models[0].predict_proba(X), models[1].predict_proba(X))


@every_one
def test_no_row_is_in_a_pickle_or_a_copy(name: str) -> None:
    X, y, groups = people()
    model = copy.deepcopy(once(name))
    model.predict(X[:50])
    model.secret_ = X
    for stored in (pickle.dumps(model), pickle.dumps(copy.deepcopy(model))):
        assert traces(stored, X, y, groups) == []
    other = pickle.loads(pickle.dumps(model))
    assert not hasattr(other, "secret_")
    assert set(vars(other)) <= set(model.get_params(deep=False)) | set(model._released)
    assert np.array_equal(other.predict(X), model.predict(X))
    assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
    del model.secret_
    assert certify(other).model_digest == certify(model).model_digest


def _weights(model: Any) -> np.ndarray:
    if hasattr(model, "module_"):
        weights = model.module_.head.weight.detach().numpy()
        if hasattr(model, "levels_"):  # without those of pairs, of which there may be fewer
            weights = weights[:, : Design([level for _, level in model.levels_]).width]
        return weights
    return model.theta_ if hasattr(model, "theta_") else model.model_.vector


@every_one
def test_two_fits_with_one_seed_share_no_noise(name: str) -> None:
    parameters = {"random_state": 0}
    if name in SMOOTHED:
        parameters |= {"estimator__random_state": 0}
    first, second = (fit(build(name, **parameters)) for _ in range(2))
    weights = [_weights(m) for m in (first, second)]
    assert np.all(weights[0] != weights[1])


@every_one
def test_repeatable_noise_repeats_bit_for_bit_whatever_the_global_state(name: str) -> None:
    X, *_ = people()
    states = []
    for seed in (11, 12):
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        random.seed(seed)
        before = np.random.get_state()[1].copy(), torch.get_rng_state(), random.getstate()  # noqa: NPY002
        states.append(fit(repeatable(name)).predict_proba(X))
        after = np.random.get_state()[1], torch.get_rng_state(), random.getstate()  # noqa: NPY002
        assert np.array_equal(before[0], after[0])
        assert torch.equal(before[1], after[1])
        assert before[2] == after[2]
    assert np.array_equal(*states)


@one_of_a_kind
def test_a_failed_fit_leaves_nothing_behind(name: str) -> None:
    X, y, groups = people()
    model = fit(build(name))
    broken = X.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken, y, sensitive_features=groups)
    assert fitted_names(model) == set()
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        model.certify()


@one_of_a_kind
@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_refused_without_being_quoted(name: str, case: str) -> None:
    import traceback

    change, message = BAD_ROWS[case]
    X, y, groups = change(*planted_people())
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        build(name).fit(X, y, sensitive_features=groups)
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert not PLANTED_AS_SHOWN.search(shown)


@one_of_a_kind
def test_groups_arrive_through_pipelines_with_routing_off_and_on(name: str) -> None:
    X, y, groups = people()
    scale = PublicScaler((-6.0, 6.0), feature_range=(-6.0, 6.0))
    model = Pipeline([("scale", scale), ("clf", build(name))])
    model.fit(X, y, clf__sensitive_features=groups)
    assert model["clf"].groups_ == ("a", "b")
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(model).fit(X, y, sensitive_features=groups)
        assert model["clf"].groups_ == ("a", "b")
    certificate = certify(model, X, sensitive_features=groups, holdout="public")
    assert certificate.privacy.epsilon <= 1.0
    assert 0 <= certificate.fairness[0].estimate <= certificate.fairness[0].bound <= 1


def test_the_functional_mechanism_can_be_trained_on_thinned_rows() -> None:
    model = PrivateThinningClassifier(build("FM", epsilon=1.0), epsilon_histogram=0.1)
    assert certify(fit(model)).privacy.epsilon == 1.0


def test_bounds_that_were_not_declared_are_asked_for_at_fit() -> None:
    X, y, _ = people()
    with pytest.raises(ValueError, match="'feature_bounds' must be a pair .*; got None"):
        FunctionalMechanismClassifier().fit(X, y)


@pytest.mark.parametrize("settings", [{"delta": 0.001}, {"epsilon": math.inf}], ids=str)
def test_warnings_point_at_the_call_of_fit(settings: dict) -> None:
    X, y, _ = people()
    with pytest.warns(PrivacyWarning) as caught:
        build("FM", **settings).fit(X, y)
    assert [w.filename for w in caught] == [__file__]
