"""``sensitive_features`` reaches fit by every route that scikit-learn has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline

from skfairdp import certify
from skfairdp.metrics import demographic_parity_scorer
from skfairdp.preprocessing import PublicScaler
from tests.common.roster import build, every_class, people
from tests.processes import in_one_worker

GROUPS = ("a", "b")


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def pipeline(name: str) -> Pipeline:
    bounds = dict.fromkeys(range(4), (-5.0, 5.0))
    return Pipeline([("scale", PublicScaler(bounds)), ("clf", build(name))])


@every_class
def test_bare(name: str) -> None:
    X, y, groups = people()
    model = build(name)
    assert model.fit(X, y, sensitive_features=groups).groups_ == GROUPS
    if name == "DP-SGD":
        assert model.fit(X, y).groups_ is None
    with pytest.raises(TypeError, match="sensitive_feature"):
        model.fit(X, y, sensitive_feature=groups)
    with pytest.raises(TypeError):
        model.fit(X, y, groups)


@every_class
def test_pipeline_with_routing_off_takes_the_prefix(name: str) -> None:
    X, y, groups = people()
    model = pipeline(name).fit(X, y, clf__sensitive_features=groups)
    assert model["clf"].groups_ == GROUPS


@every_class
def test_search_with_routing_off(name: str) -> None:
    X, y, groups = people()
    bare = GridSearchCV(build(name), {"max_grad_norm": [0.5, 1.0]}, cv=2)
    bare.fit(X, y, sensitive_features=groups)
    assert bare.best_estimator_.groups_ == GROUPS
    inside = GridSearchCV(pipeline(name), {"clf__net__lr": [0.01, 0.02]}, cv=2)
    inside.fit(X, y, clf__sensitive_features=groups)
    assert inside.best_estimator_["clf"].groups_ == GROUPS
    assert inside.best_estimator_["clf"].net.lr == inside.best_params_["clf__net__lr"]
    assert np.isfinite(inside.cv_results_["mean_test_score"]).all()


@pytest.mark.usefixtures("routing")
@every_class
def test_pipeline_with_routing_on_takes_the_name(name: str) -> None:
    X, y, groups = people()
    model = pipeline(name).fit(X, y, sensitive_features=groups)
    assert model["clf"].groups_ == GROUPS
    assert model.score(X, y) >= 0.0


@pytest.mark.usefixtures("routing")
@every_class
def test_search_and_cross_validation_with_routing_on(name: str) -> None:
    X, y, groups = people()
    scoring = {"accuracy": "accuracy", "gap": demographic_parity_scorer}
    search = GridSearchCV(
        pipeline(name),
        {"clf__net__module__hidden_sizes": [(), (4,)]},
        scoring=scoring,
        refit="accuracy",
        cv=2,
    )
    search.fit(X, y, sensitive_features=groups)
    assert search.best_estimator_["clf"].groups_ == GROUPS
    assert np.isfinite(search.cv_results_["mean_test_gap"]).all()
    results = cross_validate(
        pipeline(name), X, y, params={"sensitive_features": groups}, scoring=scoring, cv=2,
        return_estimator=True,
    )  # fmt: skip
    assert all(model["clf"].groups_ == GROUPS for model in results["estimator"])
    assert np.isfinite(results["test_accuracy"]).all()


@pytest.mark.usefixtures("routing")
@every_class
def test_ensembles_with_routing_on(name: str) -> None:
    X, y, groups = people()
    bagging = BaggingClassifier(build(name), n_estimators=2).fit(X, y, sensitive_features=groups)
    voting = VotingClassifier([("one", build(name)), ("two", build(name))])
    voting.fit(X, y, sensitive_features=groups)
    rest = OneVsRestClassifier(build(name)).fit(X, y, sensitive_features=groups)
    for ensemble in (bagging, voting, rest):
        assert all(model.groups_ == GROUPS for model in ensemble.estimators_)
        assert set(ensemble.predict(X)) <= {"no", "yes"}


@pytest.mark.usefixtures("routing")
def test_copies_of_a_row_in_a_bootstrap_are_one_person() -> None:
    X, y, groups = people()
    bagging = BaggingClassifier(build("DP-SGD"), n_estimators=2, random_state=0)
    ids = np.arange(len(X))
    for model in bagging.fit(X, y, sensitive_features=groups, person_ids=ids).estimators_:
        assert model.privacy_.protects == "person"
        (step,) = model.plan_.segments
        people_of_it = step.expected_sizes[0] / step.rates[0]
        assert people_of_it == pytest.approx(0.632 * len(X), rel=0.1)
    assert "of two people" in certify(bagging).privacy.assumptions[0]


@in_one_worker
@pytest.mark.parametrize("on", [False, True])
def test_search_in_two_processes(on: bool) -> None:
    X, y, groups = people()
    with sklearn.config_context(enable_metadata_routing=on):
        search = GridSearchCV(build("FairDP"), {"max_grad_norm": [0.5, 1.0]}, cv=2, n_jobs=2)
        search.fit(X, y, sensitive_features=groups)
    assert search.best_estimator_.groups_ == GROUPS
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("kind", ["stacking", "boosting"])
def test_ensembles_that_cannot_pass_groups_are_named_in_the_guide(kind: str) -> None:
    X, y, groups = people()
    model = build("DP-SGD")
    ensemble = {
        "stacking": StackingClassifier([("model", model)], cv=2),
        "boosting": AdaBoostClassifier(model, n_estimators=2),
    }[kind]
    guide = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
    assert type(ensemble).__name__ in guide
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(TypeError, match="unexpected"),
    ):
        ensemble.fit(X, y, sensitive_features=groups)
