"""Estimators that cannot be fitted without groups, under the checks of all others."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import Pipeline

from skfairdp import certify
from skfairdp.preprocessing import PublicScaler
from tests.common import test_certified_epsilon as certified
from tests.common import test_nothing_private_is_kept as kept
from tests.common.roster import CONSTRAINED, build, every_constrained, once, people
from tests.common.test_scikit_learn_checks import unexpected
from tests.privacy.oracle import oracle_epsilon


@pytest.mark.slow
# Whose third class is made of the labels of `people`, which scikit-learn's checks do not use.
@pytest.mark.parametrize("name", [n for n in CONSTRAINED if n != "fair path, three classes"])
def test_scikit_learn_checks_pass_where_groups_are_made_up(name: str) -> None:
    estimator = build(name, reproducible_noise=True, random_state=0)
    assert unexpected(estimator) == []


@every_constrained
def test_epsilon_is_that_of_the_plan(name: str) -> None:
    for parameters in ({}, {"epsilon": None, "noise_multiplier": 1.1}):
        model = once(name, **parameters)
        privacy = certify(model).privacy
        expected = oracle_epsilon(model.plan_, model.delta)
        assert (privacy.protects, privacy.adjacency) == ("record", "zero-out")
        assert expected * 0.997 <= privacy.epsilon <= expected * 1.02
    assert once(name).privacy_.epsilon <= 1.0


@every_constrained
@pytest.mark.parametrize(
    "check",
    [
        kept.test_a_clone_starts_fresh,
        kept.test_two_fits_with_one_seed_share_no_noise,
        kept.test_repeatable_noise_repeats_bit_for_bit,
        kept.test_the_users_net_and_rows_are_untouched,
        kept.test_a_failed_fit_leaves_nothing_behind,
        kept.test_what_is_not_released_does_not_travel,
    ],
    ids=lambda check: check.__name__.removeprefix("test_"),
)
def test_nothing_private_is_kept(name: str, check: Any) -> None:
    check(name)


@every_constrained
@pytest.mark.parametrize("repeatable", [False, True])
def test_global_generators_are_left_alone(name: str, repeatable: bool) -> None:
    kept.test_global_generators_are_left_alone(name, repeatable)


@every_constrained
def test_joblib_and_copies_predict_the_same(name: str, tmp_path: Path) -> None:
    kept.test_joblib_and_copies_predict_the_same(name, tmp_path)


@every_constrained
def test_a_pickle_holds_no_row(name: str) -> None:
    X, y, groups = people()
    model = once(name)
    assert kept.fitted_names(model) <= set(model._released)
    assert not kept.traces(pickle.dumps(model), X, y, groups)


@every_constrained
def test_repeatable_noise_and_infinite_epsilon_promise_nothing(name: str) -> None:
    certified.test_repeatable_noise_voids_the_certificate(name)
    certified.test_infinite_epsilon_warns_and_promises_nothing(name)


@every_constrained
@pytest.mark.parametrize("routing", [False, True])
def test_groups_reach_fit_in_a_pipeline(name: str, routing: bool) -> None:
    X, y, groups = people()
    steps = [("scale", PublicScaler(dict.fromkeys(range(4), (-6.0, 6.0)))), ("clf", build(name))]
    with sklearn.config_context(enable_metadata_routing=routing):
        key = "sensitive_features" if routing else "clf__sensitive_features"
        model = Pipeline(steps).fit(X, y, **{key: groups})
    assert certify(model).privacy.protects == "record"


@every_constrained
def test_bad_rows_leave_the_estimator_unfitted(name: str) -> None:
    X, y, groups = people()
    X[3, 1] = np.nan
    model = build(name)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, y, sensitive_features=groups)
    assert not hasattr(model, "classes_")
