"""SF-PATE: the attribute alone is protected, and reaches one teacher."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skfairdp import SFPATEClassifier, certify
from skfairdp.aggregation import (
    ReweighedClassifier,
    assign_shards,
    default_student,
    train_teachers,
)
from skfairdp.aggregation.sfpate import GroupTeacher
from skfairdp.aggregation.voting_plan import VotingNoise, voting_plan
from skfairdp.exceptions import PrivacyWarning
from skfairdp.privacy import epsilon

FAST: dict[str, Any] = {"n_teachers": 20, "progress": False}
VARIANTS = ("fair_student", "fair_teachers")


def biased(n: int = 1200, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One feature says the group, another the label; group "b" is seldom positive."""
    generator = np.random.default_rng(seed)
    groups = np.array(["a", "b"])[generator.integers(0, 2, size=n)]
    positive = generator.random(n) < np.where(groups == "a", 0.7, 0.3)
    X = generator.normal(size=(n, 3))
    X[:, 0] += np.where(groups == "a", 1.5, -1.5)
    X[:, 1] += np.where(positive, 1.0, -1.0)
    return X, np.where(positive, "yes", "no"), groups


def gap(model: Any, X: np.ndarray, groups: np.ndarray) -> float:
    rates = [(model.predict(X[groups == g]) == "yes").mean() for g in ("a", "b")]
    return abs(rates[0] - rates[1])


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_fair_learners_close_part_of_the_gap(variant: str) -> None:
    X, y, groups = biased()
    X_test, y_test, groups_test = biased(4000, seed=1)
    plain = LogisticRegression().fit(X, y)
    model = SFPATEClassifier(
        variant=variant, epsilon=None, vote_noise=1.0, n_answers=1200, **FAST
    ).fit(X, y, sensitive_features=groups)
    # Over eight data sets the ratio was .61 +- .04 (student) and .69 +- .03 (teachers), at other
    # seeds up to .76; .9 is five standard deviations above.
    assert gap(model, X_test, groups_test) < 0.9 * gap(plain, X_test, groups_test)
    assert model.score(X_test, y_test) > 0.7


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_protected_is_said(variant: str) -> None:
    X, y, groups = biased()
    model = SFPATEClassifier(variant=variant, epsilon=2.0, n_answers=100, **FAST)
    model.fit(X, y, sensitive_features=groups)
    privacy = certify(model).privacy
    assert (privacy.protects, privacy.adjacency) == ("sensitive_features", "change-attribute")
    assert privacy.satisfies(epsilon=2.0, protects="sensitive_features")
    assert not privacy.satisfies(epsilon=2.0, protects="record")
    text = str(certify(model))
    assert "the sensitive features of the training records are protected" in text
    assert (
        "the sensitive attribute only; features and labels have no protection, and a feature that "
        "predicts the attribute reveals it" in text
    )
    assert type(privacy).from_dict(privacy.to_dict()) == privacy


def test_a_change_of_one_attribute_costs_what_a_record_does() -> None:
    X, y, groups = biased()
    settings = dict(epsilon=None, vote_noise=20.0, n_answers=100)
    model = SFPATEClassifier(**settings, **FAST).fit(X, y, sensitive_features=groups)
    noise = VotingNoise(None, 20.0)
    removed = voting_plan(0, 100, noise, delta=model.delta)
    assert model.privacy_.epsilon == pytest.approx(epsilon(removed))
    assert model.plan_.adjacency == "change-attribute"


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_attribute_reaches_one_teacher(variant: str) -> None:
    X, y, groups = biased(400)
    codes, labels = (groups == "b").astype(np.int64), (y == "yes").astype(np.int64)
    shards = assign_shards(len(X), 10, np.random.default_rng(2))  # not the seed of the groups
    changed = codes.copy()
    changed[7] = 1 - changed[7]

    def predictions(a: np.ndarray) -> np.ndarray:
        if variant == "fair_student":
            teacher, rows, targets = LogisticRegression(), X, a
        else:
            teacher = GroupTeacher(ReweighedClassifier())
            rows, targets = np.column_stack([X, a]), labels
        teachers = train_teachers(teacher, rows, targets, shards, 10, 2, seed=0, progress=False)
        queries = np.random.default_rng(1).normal(size=(20_000, rows.shape[1]))
        return teachers.predictions(queries)

    different = (predictions(codes) != predictions(changed)).any(axis=1)
    assert np.flatnonzero(different).tolist() == [shards[7]]


def test_the_group_column_is_hidden_from_the_fair_teacher() -> None:
    X, y, groups = biased(300)
    rows = np.column_stack([X, groups == "b"]).astype(float)
    teacher = GroupTeacher(ReweighedClassifier()).fit(rows, y)
    other = rows.copy()
    other[:, -1] = 1 - other[:, -1]
    assert np.array_equal(teacher.predict(rows), teacher.predict(other))
    assert teacher.estimator_.estimator_.n_features_in_ == 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fairlearn's own use of pandas
def test_a_reduction_of_fairlearn_as_student_and_as_teacher() -> None:
    X, y, groups = biased()
    X_test, _, groups_test = biased(4000, seed=1)
    reduction = ExponentiatedGradient(
        LogisticRegression(), DemographicParity(difference_bound=0.02), max_iter=15
    )
    settings = dict(epsilon=None, vote_noise=1.0, n_answers=600)
    student = SFPATEClassifier(student=reduction, **settings, **FAST)
    student.fit(X, y, sensitive_features=groups)
    assert gap(student, X_test, groups_test) < 0.15
    assert not hasattr(student, "predict_proba")
    teachers = SFPATEClassifier(
        teacher=clone(reduction).set_params(max_iter=2),
        variant="fair_teachers",
        **settings,
        n_teachers=3,
        progress=False,
    ).fit(X, y, sensitive_features=groups)
    assert teachers.predict_proba(X).shape == (1200, 2)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_student_may_learn_from_other_rows(variant: str) -> None:
    X, y, groups = biased()
    labels = y[600:] if variant == "fair_student" else None
    model = SFPATEClassifier(variant=variant, n_answers=100, **FAST)
    model.fit(X[:600], y[:600], sensitive_features=groups[:600], X_public=X[600:], y_public=labels)
    assert model.n_asked_ == 100
    assert set(model.predict(X)) <= {"no", "yes"}


def test_three_groups() -> None:
    X, y, groups = biased()
    groups = np.where(np.arange(len(X)) % 3 == 0, "c", groups)
    model = SFPATEClassifier(n_answers=200, **FAST).fit(X, y, sensitive_features=groups)
    assert model.groups_ == ("a", "b", "c")


def test_bad_input() -> None:
    X, y, groups = biased(200)
    model = SFPATEClassifier(**FAST)
    with pytest.raises(ValueError, match="needs the group of every row: it protects the group"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="at least two groups"):
        model.fit(X, y, sensitive_features=np.full(200, "a"))
    with pytest.raises(ValueError, match="give y_public with X_public"):
        model.fit(X, y, sensitive_features=groups, X_public=X)
    with pytest.raises(ValueError, match="y_public was given without X_public"):
        model.fit(X, y, sensitive_features=groups, y_public=y)
    with pytest.raises(ValueError, match="y_public has 199 entries, and X_public has 200 rows"):
        model.fit(X, y, sensitive_features=groups, X_public=X, y_public=y[1:])
    with pytest.raises(ValueError, match="y_public has labels other than"):
        model.fit(X, y, sensitive_features=groups, X_public=X, y_public=np.full(200, "perhaps"))
    with pytest.raises(ValueError, match="'variant'"):
        SFPATEClassifier(variant="fair", **FAST).fit(X, y, sensitive_features=groups)
    with pytest.raises(TypeError, match="needs a 'student' whose fit takes sensitive_features"):
        SFPATEClassifier(student=LogisticRegression(), **FAST).fit(X, y, sensitive_features=groups)
    with pytest.raises(TypeError, match="needs a 'teacher' whose fit takes sensitive_features"):
        SFPATEClassifier(teacher=LogisticRegression(), variant="fair_teachers", **FAST).fit(
            X, y, sensitive_features=groups
        )


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_row_of_an_undeclared_group_raises_nothing_and_is_in_no_shard(variant: str) -> None:
    X, y, groups = biased(300)
    groups[::2] = "c"
    model = SFPATEClassifier(
        variant=variant, groups=["a", "b"], epsilon=math.inf, n_answers=100, **FAST
    )
    with pytest.warns(PrivacyWarning, match="nothing is protected"):
        model.fit(X, y, sensitive_features=groups)
    assert model.groups_ == ("a", "b")
    nobody = SFPATEClassifier(variant="fair_teachers", groups=["d", "e"], n_answers=50, **FAST)
    nobody.set_params(epsilon=None, vote_noise=0.3).fit(X, y, sensitive_features=groups)
    assert set(nobody.predict(X)) == {"no"}, "empty shards vote for the first class"


def test_a_net_which_would_ignore_groups_is_no_fair_learner() -> None:
    X, y, groups = biased(300)
    for variant, learner in (("fair_student", "student"), ("fair_teachers", "teacher")):
        model = SFPATEClassifier(variant=variant, **{learner: default_student()}, **FAST)
        with pytest.raises(TypeError, match="takes sensitive_features"):
            model.fit(X, y, sensitive_features=groups)
