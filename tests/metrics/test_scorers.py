"""Scorers inside scikit-learn's searches, with metadata routing on and off."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skfairdp.metrics import (
    AccuracyUnderGapScorer,
    GapScorer,
    accuracy_parity_scorer,
    demographic_parity_scorer,
    equal_opportunity_scorer,
    equalized_odds_scorer,
    group_gap,
)
from tests.processes import in_one_worker


class Threshold(ClassifierMixin, BaseEstimator):
    """Predicts 1 where the column `x` is above `threshold`; takes groups and ignores them."""

    __metadata_request__fit = {"sensitive_features": True}

    def __init__(self, threshold=0.0):
        self.threshold = threshold

    def fit(self, X, y, *, sensitive_features=None):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.classes_[(np.asarray(X)[:, 0] > self.threshold).astype(int)]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], 400)
    x = rng.normal(size=400) + (sex == "M")
    y = (x + rng.normal(size=400) > 0.5).astype(int)
    return pd.DataFrame({"x": x, "sex": sex}), y


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def folds():
    return StratifiedKFold(4)


def expected_scores(X, y, threshold):
    return [
        -group_gap(
            y[test],
            (X["x"].iloc[test] > threshold).astype(int),
            sensitive_features=X["sex"].iloc[test],
        )
        for _, test in folds().split(X, y)
    ]


def test_routed_groups_reach_the_scorer_without_any_request_call(rows, routing):
    X, y = rows
    scores = cross_validate(
        Threshold(0.2),
        X[["x"]].to_numpy(),
        y,
        cv=folds(),
        scoring=demographic_parity_scorer,
        params={"sensitive_features": X["sex"]},
        error_score="raise",
    )["test_score"]
    assert scores == pytest.approx(expected_scores(X, y, 0.2))


def test_a_column_of_x_gives_the_same_scores_with_routing_off(rows):
    X, y = rows
    scorer = GapScorer(sensitive_column="sex")
    scores = cross_validate(Threshold(0.2), X, y, cv=folds(), scoring=scorer, error_score="raise")
    assert scores["test_score"] == pytest.approx(expected_scores(X, y, 0.2))


@pytest.mark.parametrize("multi", [False, True])
def test_without_groups_a_search_gets_an_error_and_never_a_score(rows, multi):
    X, y = rows
    scoring = {"gap": demographic_parity_scorer} if multi else demographic_parity_scorer
    with pytest.raises(ValueError, match="never scores all rows as one group"):
        cross_validate(Threshold(), X, y, cv=folds(), scoring=scoring, error_score="raise")


def test_routing_without_groups_passed_raises_too(rows, routing):
    X, y = rows
    with pytest.raises(ValueError, match="never scores all rows as one group"):
        cross_validate(Threshold(), X, y, scoring=demographic_parity_scorer, error_score="raise")


@in_one_worker
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search_with_several_metrics_and_routing(rows, routing, n_jobs):
    X, y = rows
    search = GridSearchCV(
        make_pipeline(FunctionTransformer(), Threshold()),
        {"threshold__threshold": [-3.0, 0.5]},
        scoring={
            "accuracy": "accuracy",
            "parity": demographic_parity_scorer,
            "opportunity": equal_opportunity_scorer,
            "odds": equalized_odds_scorer,
            "equal_accuracy": accuracy_parity_scorer,
            "both": AccuracyUnderGapScorer(tolerance=0.1),
        },
        refit="both",
        cv=folds(),
        n_jobs=n_jobs,
        error_score="raise",
    ).fit(X[["x"]].to_numpy(), y, sensitive_features=X["sex"])
    table = pd.DataFrame(search.cv_results_).set_index("param_threshold__threshold")
    assert table.loc[0.5, "mean_test_parity"] == pytest.approx(np.mean(expected_scores(X, y, 0.5)))
    assert table.loc[0.5, "mean_test_accuracy"] > table.loc[-3.0, "mean_test_accuracy"]
    assert search.best_params_ == {"threshold__threshold": -3.0}
    score = search.score(X[["x"]].to_numpy(), y, sensitive_features=X["sex"])
    assert 0.0 < score < 1.0


@in_one_worker
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search_with_several_metrics_and_routing_off(rows, n_jobs):
    X, y = rows
    search = GridSearchCV(
        Threshold(),
        {"threshold": [-3.0, 0.5]},
        scoring={"accuracy": "accuracy", "parity": GapScorer(sensitive_column="sex")},
        refit="parity",
        cv=folds(),
        n_jobs=n_jobs,
        error_score="raise",
    ).fit(X, y, sensitive_features=X["sex"])
    assert search.best_params_ == {"threshold": -3.0}
    assert search.cv_results_["mean_test_parity"][1] == pytest.approx(
        np.mean(expected_scores(X, y, 0.5))
    )


def test_sample_weights_do_not_break_a_search_with_several_metrics(rows):
    X, y = rows

    class Weighted(Threshold):
        def fit(self, X, y, *, sensitive_features=None, sample_weight=None):
            return super().fit(X, y)

    search = GridSearchCV(
        Weighted(),
        {"threshold": [0.5]},
        scoring={"parity": GapScorer(sensitive_column="sex")},
        refit="parity",
        error_score="raise",
    )
    with pytest.warns(UserWarning, match="sample_weight"):
        search.fit(X, y, sample_weight=np.ones(len(y)))
    assert search.best_score_ < 0.0


@pytest.mark.parametrize(
    "scorer",
    [demographic_parity_scorer, AccuracyUnderGapScorer(tolerance=0.2, sensitive_column="sex")],
)
def test_scorers_survive_clone_pickle_and_joblib(scorer, tmp_path, rows):
    X, y = rows
    model = Threshold(0.5).fit(X, y)
    joblib.dump(scorer, tmp_path / "scorer")
    copies = [clone(scorer), pickle.loads(pickle.dumps(scorer)), joblib.load(tmp_path / "scorer")]
    for copy in copies:
        assert repr(copy) == repr(scorer)
        assert copy(model, X, y, sensitive_features=X["sex"]) == scorer(
            model, X, y, sensitive_features=X["sex"]
        )


def test_several_columns_are_intersected(rows):
    X, y = rows
    X = X.assign(old=np.arange(len(X)) % 2)
    model = Threshold(0.5).fit(X, y)
    columns = GapScorer(sensitive_column=["sex", "old"])(model, X, y)
    assert columns == demographic_parity_scorer(model, X, y, sensitive_features=X[["sex", "old"]])
    assert columns < demographic_parity_scorer(model, X, y, sensitive_features=X["sex"])


def test_string_labels_are_scored_by_the_fitted_classes(rows):
    X, y = rows
    words = np.array(["denied", "granted"])
    plain = GapScorer("equal_opportunity", sensitive_column="sex")
    expected = plain(Threshold(0.5).fit(X, y), X, y)
    assert plain(Threshold(0.5).fit(X, words[y]), X, words[y]) == expected


def test_intolerable_models_rank_below_every_tolerable_one(rows):
    X, y = rows
    scorer = AccuracyUnderGapScorer(tolerance=0.1, sensitive_column="sex")
    gap = -GapScorer(sensitive_column="sex")(Threshold(0.5).fit(X, y), X, y)
    assert gap > 0.1
    assert scorer(Threshold(0.5).fit(X, y), X, y) == pytest.approx(0.1 - gap)
    assert scorer(Threshold(-9.0).fit(X, y), X, y) == np.mean(y == 1)


@pytest.mark.parametrize(
    ("scorer", "X_of", "match"),
    [
        (GapScorer(sensitive_column="race"), lambda X: X, "not in X"),
        (GapScorer(sensitive_column=["sex", "race"]), lambda X: X, "not in X"),
        (GapScorer(sensitive_column="sex"), lambda X: X[["x"]].to_numpy(), "DataFrame"),
        (GapScorer("luck", sensitive_column="sex"), lambda X: X, "notion='luck' is not known"),
        (
            AccuracyUnderGapScorer(tolerance=2.0, sensitive_column="sex"),
            lambda X: X,
            "tolerance must lie",
        ),
        (GapScorer(sensitive_column="sex"), lambda X: X[X["sex"] == "F"], "at least two"),
    ],
)
def test_scorers_refuse_what_they_cannot_score(rows, scorer, X_of, match):
    X, y = rows
    model = Threshold().fit(X, y)
    part = X_of(X)
    with pytest.raises(ValueError, match=match):
        scorer(model, part, y[: len(part)])
