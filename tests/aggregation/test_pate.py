"""PATE: what is asked, what is spent, what the student sees, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skfairdp import PATEClassifier, PublicRows, certify
from skfairdp.exceptions import PrivacyWarning
from skfairdp.preprocessing import PublicScaler
from skfairdp.privacy import epsilon
from tests.common.roster import people

FAST: dict[str, Any] = {"n_teachers": 30, "progress": False}


def halves(n: int = 800, seed: int = 0) -> tuple[np.ndarray, ...]:
    X, y, groups = people(n, seed)
    half = n // 2
    return X[:half], y[:half], X[half:], groups[half:]


def fitted(**parameters: Any) -> PATEClassifier:
    X, y, X_public, groups = halves()
    model = PATEClassifier(**FAST | parameters)
    return model.fit(X, y, X_public=X_public, sensitive_features_public=groups)


class Recorder(ClassifierMixin, BaseEstimator):
    """Student that shows what it was given."""

    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def fit(self, X, y):
        Recorder.seen.append((X, y))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def test_without_noise_the_student_is_as_good_as_the_teachers() -> None:
    X, y, _ = people(600, seed=1)
    with pytest.warns(PrivacyWarning):
        model = fitted(epsilon=math.inf)
    assert model.n_answered_ == 400
    # Bayes: about .80 in these rows; 600 of them are within .06 with chance 1 - 1e-3 or so,
    # the seed is fixed for the rows.
    assert model.score(X, y) > 0.7


def test_calibrated_noise_uses_the_budget() -> None:
    model = fitted(epsilon=2.0, n_answers=50)
    assert model.n_answered_ == model.n_charged_ == model.n_asked_ == 50
    assert 1.98 <= model.privacy_.epsilon <= 2.0
    assert model.plan_.segments[-1].steps == 50
    assert model.threshold_noise_ is None


def test_left_open_the_number_of_answers_keeps_noise_at_half_the_teachers() -> None:
    rich = fitted(epsilon=8.0)
    assert 100 < rich.plan_.segments[-1].steps < 400
    assert rich.vote_noise_ == pytest.approx(15.0, rel=0.02)
    assert fitted(epsilon=0.5).plan_.segments[-1].steps == 100


def test_given_noise_buys_as_many_answers_as_the_budget_pays_for() -> None:
    model = fitted(epsilon=5.0, vote_noise=10.0)
    assert 1 <= model.n_answered_ < 400
    assert model.privacy_.epsilon <= 5.0
    (votes,) = model.plan_.segments
    more = replace(votes, steps=votes.steps + 1)
    assert epsilon(replace(model.plan_, segments=(more,))) > 5.0


def test_noise_and_numbers_alone_set_epsilon() -> None:
    settings = dict(threshold=20, threshold_noise=40.0, vote_noise=15.0, n_answers=30)
    model = fitted(epsilon=None, **settings)
    tests, votes = model.plan_.segments
    assert (tests.steps, votes.steps) == (400, 30)
    assert model.privacy_.epsilon == pytest.approx(epsilon(model.plan_))


def test_epsilon_is_that_of_the_plan_whatever_happened() -> None:
    # With 30 teachers and T = 28 few queries pass; with T = 0 nearly all do.
    settings = dict(epsilon=None, threshold_noise=2.0, vote_noise=15.0, n_answers=200)
    shy, bold = (fitted(threshold=t, **settings) for t in (28, 0))
    assert shy.n_charged_ < bold.n_charged_ == 200
    assert shy.n_asked_ == 400
    assert shy.privacy_.epsilon == bold.privacy_.epsilon
    assert shy.coverage_ < 1.0


def test_the_student_sees_answered_public_rows_and_nothing_else() -> None:
    X, y, X_public, _ = halves()
    Recorder.seen.clear()
    model = PATEClassifier(student=Recorder(), n_answers=60, **FAST)
    model.fit(X, y, X_public=X_public)
    ((rows, answers),) = Recorder.seen
    public = {row.tobytes() for row in X_public}
    assert len(rows) == len(answers) == 60
    assert {row.tobytes() for row in rows} <= public
    assert set(answers.tolist()) <= {0, 1}
    assert not hasattr(model, "predict_proba")
    assert set(model.predict(X)) <= {"no", "yes"}


def test_a_search_as_student_chooses_by_answered_rows() -> None:
    student = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, cv=3)
    model = fitted(student=student, epsilon=8.0, n_answers=90)
    assert model.student_.model.best_params_["C"] in (0.01, 1.0)
    assert not hasattr(student, "best_params_")
    assert certify(model).privacy.epsilon <= 8.0


def test_queries_come_in_the_order_of_the_rows_or_in_a_seeded_one() -> None:
    X, y, X_public, _ = halves()

    def rows(**parameters: Any) -> np.ndarray:
        Recorder.seen.clear()
        model = PATEClassifier(student=Recorder(), n_queries=50, n_answers=50, **FAST)
        model.set_params(**parameters).fit(X, y, X_public=X_public)
        return Recorder.seen[0][0]

    assert np.array_equal(rows(shuffle=False), X_public[:50])
    assert np.array_equal(rows(random_state=3), rows(random_state=3))
    assert not np.array_equal(rows(random_state=3), rows(random_state=4))


def test_three_classes() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(900, 3))
    y = np.array(["x", "y", "z"])[X.argmax(axis=1)]
    model = PATEClassifier(epsilon=20.0, n_answers=200, **FAST)
    model.fit(X[:600], y[:600], X_public=X[600:])
    assert model.predict_proba(X).shape == (900, 3)
    assert model.score(X, y) > 0.6  # chance is 1/3


def test_a_declared_class_that_no_teacher_knows() -> None:
    model = fitted(classes=["maybe", "no", "yes"], epsilon=50.0, n_answers=100)
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    assert model.predict_proba(halves()[0]).shape == (400, 3)


def test_fewer_rows_than_teachers_is_no_error() -> None:
    X, y, X_public, _ = halves()
    model = PATEClassifier(n_teachers=200, n_answers=100, progress=False)
    assert set(model.fit(X[:20], y[:20], X_public=X_public).predict(X)) <= {"no", "yes"}


def test_one_answered_class_gives_a_constant_student() -> None:
    X, y, X_public, _ = halves()
    y = np.where(np.arange(400) < 4, y, "yes")
    y[0] = "no"
    model = PATEClassifier(epsilon=None, vote_noise=1.0, n_answers=20, **FAST)
    model.fit(X, y, X_public=X_public)
    assert set(model.predict(X)) == {"yes"}
    assert model.predict_proba(X).tolist() == [[0.0, 1.0]] * 400


def test_no_answer_is_an_error_that_says_what_was_spent() -> None:
    # T is eight standard deviations above the 30 votes there are, less the three allowed.
    settings = dict(epsilon=None, threshold=32.9, threshold_noise=1.0, vote_noise=5.0)
    with pytest.raises(ValueError, match=r"No query was answered.*cost is spent"):
        fitted(**settings, n_queries=3, teacher=LogisticRegression(C=1e-9))


def test_coverage_is_part_of_the_certificate() -> None:
    settings = dict(threshold=25, threshold_noise=3.0, vote_noise=5.0, n_answers=60)
    model = fitted(epsilon=None, **settings)
    text = str(model.certify())
    assert f"coverage: {model.n_answered_} of {model.n_asked_} queries were answered" in text
    assert f"by group a: {model.coverage_by_group_['a']:.3f}" in text
    assert "400 noisy threshold tests and 60 noisy votes" in text
    assert "add-remove" in text
    assert model.answers_by_group_.sum() == model.n_answered_
    assert model.asked_by_group_.sum() == model.n_asked_


def test_nested_parameters_work_from_the_defaults() -> None:
    model = PATEClassifier().set_params(student__max_epochs=3, teacher__lr=0.02)
    assert model.student.max_epochs == 3
    assert model.teacher.lr == 0.02
    assert PATEClassifier().student is None


def test_a_pipeline_transforms_public_rows_too() -> None:
    X, y, X_public, groups = halves()
    Recorder.seen.clear()
    steps = [
        ("scale", PublicScaler(dict.fromkeys(range(4), (-10.0, 10.0)))),
        ("clf", PATEClassifier(student=Recorder(), n_answers=50, **FAST)),
    ]
    with sklearn.config_context(enable_metadata_routing=True):
        model = Pipeline(steps, transform_input=["X_public"])
        model.fit(X, y, X_public=X_public, sensitive_features_public=groups)
    assert model["clf"].public_groups_ == ("a", "b")
    scaled = {np.asarray(row).tobytes() for row in steps[0][1].fit(X).transform(X_public)}
    assert {row.tobytes() for row in Recorder.seen[0][0]} <= scaled
    assert certify(model).privacy.epsilon <= 1.0


@pytest.mark.parametrize("routing", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_search_takes_as_many_public_rows_as_private_ones(routing: bool) -> None:
    X, y, X_public, groups = halves()
    assert len(X) == len(X_public)
    search = GridSearchCV(PATEClassifier(n_queries=400, **FAST), {"n_answers": [20, 40]}, cv=2)
    with sklearn.config_context(enable_metadata_routing=routing):
        search.fit(X, y, X_public=PublicRows(X_public, groups))
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        assert search.best_estimator_.public_groups_ == ("a", "b")
        # Without the wrapper scikit-learn cuts them: n_queries is more than is left.
        with pytest.raises(ValueError, match=r"'n_queries' must be at most"):
            search.set_params(error_score="raise").fit(X, y, X_public=X_public)


def test_frames_as_public_rows() -> None:
    X, y, X_public, groups = halves()
    columns = list("pqrs")
    model = PATEClassifier(n_answers=30, **FAST)
    model.fit(
        pd.DataFrame(X, columns=columns),
        y,
        X_public=pd.DataFrame(X_public, columns=columns),
        sensitive_features_public=pd.DataFrame({"sex": groups}),
    )
    assert model.feature_names_in_.tolist() == columns
    assert model.public_groups_ == ("a", "b")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "teachers 0": ({"n_teachers": 0}, "'n_teachers'"),
    "epsilon 0": ({"epsilon": 0.0}, "'epsilon'"),
    "neither": ({"epsilon": None}, "Set 'epsilon'.*epsilon=None and 'vote_noise'"),
    "half of the noise": ({"threshold": 20, "vote_noise": 5.0}, "'vote_noise' and 'threshold_n"),
    "test without threshold": ({"threshold_noise": 5.0}, "'threshold' is None"),
    "three of three": ({"vote_noise": 5.0, "n_answers": 9}, "fix how many answers"),
    "noise and infinity": ({"epsilon": math.inf, "vote_noise": 1.0}, "epsilon=inf means no noise"),
    "negative threshold": ({"threshold": -1}, "'threshold'"),
    "threshold out of reach": ({"threshold": 10_000}, "'threshold' = 10000 is above .* 30"),
    "budget of no answer": (
        {"epsilon": 0.1, "vote_noise": 1.0},
        "'epsilon' = 0.1 is too small for a single answer with vote_noise=1",
    ),
    "budget spent on tests": (
        {"epsilon": 1.0, "threshold": 20, "threshold_noise": 5.0, "vote_noise": 50.0},
        "too small for a single answer .* after 400 threshold tests",
    ),
    "queries": ({"n_queries": 401}, "'n_queries' must be at most the number of public rows, 400"),
    "answers": ({"n_queries": 50, "n_answers": 51}, "'n_answers' must be at most .* 50; got 51"),
    "ratio": ({"noise_ratio": 0.0}, "'noise_ratio'"),
    "delta": ({"delta": 1 / 400}, "'delta' must be below 1/n"),
    "delta of the declared size": ({"delta": 1e-4, "dataset_size": 20_000}, "'delta' must be"),
    "classes": ({"classes": "yes"}, "'classes'"),
    "teacher": ({"teacher": 3}, "'teacher' must be"),
    "student without groups": ({"shuffle": 1}, "'shuffle'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters(case: str) -> None:
    parameters, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=message):
        fitted(**parameters)


def test_published_thresholds_above_the_number_of_teachers_are_allowed() -> None:
    # PATE 2018, SVHN: 250 teachers, T = 300, noise of 200 and 40.
    X, y, X_public, _ = halves()
    model = PATEClassifier(
        n_teachers=250,
        epsilon=None,
        threshold=300,
        threshold_noise=200.0,
        vote_noise=40.0,
        progress=False,
    ).fit(X, y, X_public=X_public)
    assert 0 < model.n_answered_ < 400


def test_public_rows_are_needed_and_must_fit() -> None:
    X, y, X_public, groups = halves()
    model = PATEClassifier(**FAST)
    with pytest.raises(ValueError, match="PATEClassifier needs public rows: give X_public"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="'X_public' has 3 columns, but X has 4"):
        model.fit(X, y, X_public=X_public[:, :3])
    with pytest.raises(ValueError, match="came twice"):
        model.fit(X, y, X_public=PublicRows(X_public, groups), sensitive_features_public=groups)
    with pytest.raises(ValueError, match="sensitive_features_public has another number"):
        model.fit(X, y, X_public=X_public, sensitive_features_public=groups[1:])
    with pytest.raises(ValueError, match="sensitive_features has another number"):
        model.fit(X, y, X_public=X_public, sensitive_features=groups[1:])


def test_the_check_of_delta_does_not_show_how_many_private_rows_there_are():
    from skfairdp.privacy.sizes import check_delta

    with pytest.raises(ValueError, match="'delta' must be below 1/n") as caught:
        check_delta(0.5, 431, public=False)
    assert "431" not in str(caught.value)
    with pytest.warns(UserWarning, match="Set a smaller one") as warned:
        check_delta(1 / 500, 431, public=False)
    assert "0.00023" not in str(warned[0].message)
