"""Estimators that protect the sensitive attribute alone, under the checks of all others."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skfairdp import LagrangianDualClassifier, certify
from skfairdp.exceptions import PrivacyWarning
from skfairdp.preprocessing import PublicScaler
from tests.common.roster import ATTRIBUTE, FIRST, build, every_attribute, people
from tests.common.test_nothing_private_is_kept import fitted_names, traces
from tests.common.test_refusals import BAD_ROWS
from tests.common.test_scikit_learn_checks import unexpected
from tests.privacy.oracle import oracle_epsilons


@every_attribute
@pytest.mark.parametrize("parameters", [{}, {"epsilon": None, "noise_multiplier": 1.1}], ids=str)
def test_epsilon_is_that_of_the_plan(name: str, parameters: dict) -> None:
    X, y, groups = people()
    model = build(name, **parameters).fit(X, y, sensitive_features=groups)
    privacy = certify(model).privacy
    expected = max(oracle_epsilons(model.plan_, model.delta).values())
    assert privacy.delta == model.delta
    assert expected * 0.997 <= privacy.epsilon <= expected * 1.02
    assert privacy.per_group is None
    if not parameters:
        assert 0.97 <= privacy.epsilon <= 1.0


@every_attribute
def test_repeatable_noise_voids_the_certificate(name: str) -> None:
    X, y, groups = people()
    model = build(name, reproducible_noise=True).fit(X, y, sensitive_features=groups)
    assert math.isinf(certify(model).privacy.epsilon)


@every_attribute
def test_infinite_epsilon_warns_and_promises_nothing(name: str) -> None:
    X, y, groups = people()
    with pytest.warns(PrivacyWarning, match="epsilon=inf"):
        model = build(name, epsilon=math.inf).fit(X, y, sensitive_features=groups)
    assert model.certify().privacy is None


@every_attribute
def test_a_pickle_holds_no_row_and_no_group_size(name: str) -> None:
    X, y, groups = people(400)
    model = build(name).fit(X, y, sensitive_features=groups)
    assert fitted_names(model) <= set(model._released)
    assert not traces(pickle.dumps(model), X, y, groups)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert str(certify(again).privacy) == str(certify(copy.deepcopy(model)).privacy)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTRIBUTE)
def test_scikit_learn_checks(name: str) -> None:
    assert unexpected(build(name, reproducible_noise=True, random_state=0)) == []
    if name not in FIRST:  # tests/common/test_scikit_learn_checks.py does so with the first
        assert unexpected(build(name)) == []


@every_attribute
@pytest.mark.parametrize("routing", [False, True])
def test_groups_reach_fit_in_a_pipeline(name: str, routing: bool) -> None:
    X, y, groups = people()
    steps = [("scale", PublicScaler(dict.fromkeys(range(4), (-6.0, 6.0)))), ("clf", build(name))]
    with sklearn.config_context(enable_metadata_routing=routing):
        key = "sensitive_features" if routing else "clf__sensitive_features"
        model = Pipeline(clone(Pipeline(steps)).steps).fit(X, y, **{key: groups})
    assert certify(model).privacy.protects == "sensitive_features"


def test_bad_rows_are_refused_and_leave_the_estimator_unfitted() -> None:
    assert BAD_ROWS
    X, y, groups = people()
    X = X.copy()
    X[3, 1] = np.nan
    model = LagrangianDualClassifier(progress=False)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, y, sensitive_features=groups)
    assert not hasattr(model, "classes_")
