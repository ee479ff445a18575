"""Abstention at inference: the contract of predict, and what a certificate says of it."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from skfairdp import DPSGDClassifier, DPSGDFClassifier, certify
from skfairdp.certificate import Certificate
from skfairdp.exceptions import FairnessWarning, UnknownGroupError
from skfairdp.fairness import ParityGate
from skfairdp.postprocessing import AbstainingClassifier
from skfairdp.preprocessing import PublicScaler
from tests.common.roster import FAST, people

# Many fits here follow a step that learns from rows, which warns.
pytestmark = pytest.mark.filterwarnings("ignore:.* may have learned from the rows")


class Echo(ClassifierMixin, BaseEstimator):
    """Predicts the first column; remembers the groups that fit got."""

    def fit(self, X, y, *, sensitive_features=None):
        self.classes_ = np.unique(y)
        self.n_features_in_ = np.shape(X)[1]
        self.seen_ = sensitive_features
        return self

    def predict(self, X):
        return self.classes_[np.asarray(X)[:, 0].astype(int)]


def rows(n: int = 600, seed: int = 0, shares: tuple[float, ...] = (0.3, 0.8)):
    rng = np.random.default_rng(seed)
    codes = rng.integers(len(shares), size=n)
    return (rng.random(n) < np.array(shares)[codes]).astype(int)[:, None], np.array([*"abc"])[codes]


def fitted(**settings) -> AbstainingClassifier:
    X, groups = rows()
    model = AbstainingClassifier(Echo(), **({"tolerance": 0.1} | settings))
    return model.fit(X, X[:, 0], sensitive_features=groups)


def test_answers_are_the_inner_predictions_or_the_marker_and_the_table_is_even() -> None:
    X, groups = rows(2000, seed=1)
    model = fitted()
    answers = model.predict(X, sensitive_features=groups)
    assert answers.dtype == model.classes_.dtype
    given = answers != model.abstention_label_
    assert model.abstention_label_ == -1
    assert (answers[given] == X[given, 0]).all()
    rates = [answers[given & (groups == z)].mean() for z in "ab"]
    assert 0 < abs(rates[1] - rates[0]) <= 0.1
    assert model.turnstile_.coverage == pytest.approx(given.mean())
    assert model.turnstile_.answered.sum() == given.sum()
    assert model.turnstile_.gate.worst <= 0.1


def test_order_and_earlier_calls_matter_and_batches_do_not() -> None:
    X, groups = rows(900, seed=2)
    whole, parts = fitted(), fitted()
    together = whole.predict(X, sensitive_features=groups)
    pieces = [
        parts.predict(X[i : i + 11], sensitive_features=groups[i : i + 11])
        for i in range(0, 900, 11)
    ]
    assert (np.concatenate(pieces) == together).all()
    assert (whole.predict(X, sensitive_features=groups) != together).any()


@pytest.mark.parametrize("label", ["auto", "no answer"])
def test_text_labels_are_not_cut_off(label) -> None:
    X, groups = rows()
    model = AbstainingClassifier(Echo(), tolerance=0.1, abstention_label=label)
    model.fit(X, np.where(X[:, 0], "yes", "no"), sensitive_features=groups)
    found = set(model.predict(X, sensitive_features=groups))
    assert found == {"yes", "no", "abstained" if label == "auto" else label}


def test_groups_at_predict() -> None:
    X, groups = rows()
    model = fitted()
    with pytest.raises(ValueError, match="predict needs sensitive_features.*'a', 'b'"):
        model.predict(X)
    strange = groups.astype(object).copy()
    strange[-1] = "c"
    with pytest.raises(UnknownGroupError, match="not among the known ones"):
        model.predict(X, sensitive_features=strange)
    assert model.turnstile_.asked.sum() == 0, "a refused call counts nothing"
    for missing in (None, float("nan"), pd.NA):
        holes = pd.Series(groups, dtype=object)
        holes.iloc[:40] = missing
        fresh = fitted()
        answers = fresh.predict(X, sensitive_features=holes)
        assert (answers[:40] == -1).all()
        assert (answers[40:90] != -1).all(), "the cold start answers everybody with a group"
        assert fresh.turnstile_.without_group == 40
    with pytest.raises(ValueError, match="another number of rows than X"):
        model.predict(X, sensitive_features=groups[1:])


def test_intersections_and_declared_groups() -> None:
    X, groups = rows()
    frame = pd.DataFrame({"sex": groups, "old": np.arange(600) % 2})
    model = AbstainingClassifier(Echo(), tolerance=0.1).fit(X, X[:, 0], sensitive_features=frame)
    assert model.groups_ == (("a", 0), ("a", 1), ("b", 0), ("b", 1))
    assert len(model.predict(X, sensitive_features=frame)) == 600
    declared = AbstainingClassifier(Echo(), tolerance=0.1, groups=["a", "b", "z"])
    declared.fit(X, X[:, 0])
    answers = declared.predict(X, sensitive_features=groups)
    assert (answers != -1).all(), "group z has no answer yet, so nothing is gated"


def test_groups_that_were_declared_inside_are_the_only_ones_named() -> None:
    X, y, groups = people()
    groups = np.where(np.arange(len(X)) == 5, "nobody knows", groups)
    inner = DPSGDFClassifier(group_sizes={"b": 100, "a": 200}, **FAST)
    model = AbstainingClassifier(inner).fit(X, y, sensitive_features=groups)
    assert model.groups_ == ("b", "a")


def test_without_groups_everything_is_answered_and_nothing_claimed() -> None:
    X, groups = rows()
    model = AbstainingClassifier(Echo()).fit(X, X[:, 0])
    assert (model.predict(X) == X[:, 0]).all()
    assert (model.groups_, model.turnstile_) == (None, None)
    assert certify(model).fairness == ()
    with pytest.raises(ValueError, match="fitted without groups"):
        model.predict(X, sensitive_features=groups)


def test_no_probabilities() -> None:
    X, groups = rows()
    model = AbstainingClassifier(LogisticRegression()).fit(X, X[:, 0], sensitive_features=groups)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "decision_function")


def test_the_estimator_is_cloned_and_gets_the_groups_if_it_takes_them() -> None:
    X, groups = rows()
    template = Echo()
    model = AbstainingClassifier(template).fit(X, X[:, 0], sensitive_features=groups)
    assert (model.estimator_.seen_ == groups).all()
    assert not hasattr(template, "seen_")
    takes_none = AbstainingClassifier(LogisticRegression())
    assert takes_none.fit(X, X[:, 0], sensitive_features=groups).groups_ == ("a", "b")
    piped = AbstainingClassifier(make_pipeline(StandardScaler(), Echo()))
    piped.fit(X, X[:, 0], sensitive_features=groups)
    assert (piped.estimator_[-1].seen_ == groups).all()


@pytest.mark.parametrize("inside", [True, False])
def test_metadata_routing(inside: bool) -> None:
    X, groups = rows()
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Echo().set_fit_request(sensitive_features=True)
        if inside:
            model = AbstainingClassifier(make_pipeline(StandardScaler(), inner), tolerance=0.1)
        else:
            model = make_pipeline(StandardScaler(), AbstainingClassifier(inner, tolerance=0.1))
        model.fit(X, X[:, 0], sensitive_features=groups)
        last = model if inside else model[-1]
        echo = last.estimator_[-1] if inside else last.estimator_
        assert (echo.seen_ == groups).all()
        assert -1 in model.predict(X + 1e-9, sensitive_features=groups)
        AbstainingClassifier(LogisticRegression()).fit(X, X[:, 0], sensitive_features=groups)


def test_a_frozen_estimator_is_used_as_it_is_and_knows_its_groups() -> None:
    X, y, groups = people()
    inner = DPSGDClassifier(**FAST).fit(X, y, sensitive_features=groups)
    model = AbstainingClassifier(FrozenEstimator(inner), tolerance=0.2).fit(X, y)
    assert model.groups_ == ("a", "b")
    assert (model.estimator_.predict(X) == inner.predict(X)).all()
    others = np.where(X[:, 0] > 0, "u", "v")
    assert clone(model).fit(X, y, sensitive_features=others).groups_ == ("u", "v")
    assert certify(model).privacy == inner.privacy_


def test_pickles_carry_the_state_and_no_training_row() -> None:
    X, groups = rows(1000, seed=3)
    model = fitted()
    model.predict(X[:500], sensitive_features=groups[:500])
    again = pickle.loads(pickle.dumps(model))
    assert again.turnstile_.save() == model.turnstile_.save()
    rest = {"X": X[500:], "sensitive_features": groups[500:]}
    assert (again.predict(**rest) == model.predict(**rest)).all()
    trained = LogisticRegression().fit(X, X[:, 0])
    bare = AbstainingClassifier(trained).fit(X, X[:, 0], sensitive_features=groups)
    assert not hasattr(pickle.loads(pickle.dumps(bare)).estimator, "coef_")


def test_a_deadlocked_gate_warns_and_says_so_in_the_certificate() -> None:
    X, groups = rows(600, shares=(0.3, 0.5, 0.8))
    model = AbstainingClassifier(Echo(), tolerance=0.05, cold_start=40)
    model.fit(np.arange(6)[:, None] % 3, np.arange(6) % 3, sensitive_features=[*"abcabc"])
    gate = ParityGate(3, 3, tolerance=0.05, cold_start=40)
    counts = [[51, 47, 29], [44, 51, 14], [42, 63, 31]]
    stored = {"gate": gate.state | {"counts": counts}, "asked": [127, 109, 136], "without_group": 0}
    model.turnstile_.restore(stored)
    with pytest.warns(FairnessWarning, match="deadlocked"):
        answers = model.predict(X, sensitive_features=groups)
    assert (answers == -1).all()
    assert "deadlocked" in str(model.certify())


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"tolerance": 1.5}, "'tolerance' parameter"),
        ({"tolerance": 0}, "0.01 needs cold_start=100"),
        ({"cold_start": 5}, "at least 10 answers a group"),
        ({"cold_start": "soon"}, "'cold_start' parameter"),
        ({"gate": "some"}, "'gate' parameter"),
        ({"estimator": 3}, "must be a classifier"),
        ({"abstention_label": 1}, "is one of the classes"),
        ({"groups": ["a", "a"]}, "list of different groups"),
    ],
)
def test_wrong_settings_are_refused_and_leave_it_unfitted(wrong, match) -> None:
    X, groups = rows()
    model = AbstainingClassifier(Echo(), tolerance=0.1).set_params(**wrong)
    with pytest.raises(ValueError, match=match):
        model.fit(X, X[:, 0], sensitive_features=groups)
    with pytest.raises(NotFittedError):
        model.predict(X, sensitive_features=groups)


def test_bad_gate_settings_show_before_anything_is_spent_on_training() -> None:
    class Costly(Echo):
        def fit(self, X, y, *, sensitive_features=None):
            raise AssertionError("trained")

    X, groups = rows()
    with pytest.raises(ValueError, match="at least 10"):
        AbstainingClassifier(Costly(), tolerance=0.1, cold_start=2).fit(
            X, X[:, 0], sensitive_features=groups
        )


def test_certificate_states_inner_privacy_and_the_answers() -> None:
    X, y, groups = people(600)
    model = AbstainingClassifier(DPSGDClassifier(**FAST), tolerance=0.2)
    model.fit(X, y, sensitive_features=groups)
    model.predict(X, sensitive_features=groups)
    stated = model.certify()
    assert stated.privacy == model.estimator_.privacy_
    (claim,) = stated.fairness
    table = model.turnstile_.gate.counts
    rates = table[:, 1] / table.sum(axis=1)
    assert claim.bound == pytest.approx(np.ptp(rates))
    assert stated.satisfies(epsilon=1.0, protects="record", adjacency="zero-out")
    assert stated.satisfies(tolerance=0.2, scope="answered queries")
    assert not stated.satisfies(tolerance=0.2), "it is not a claim about the deployed model"
    assert stated.sentence.startswith("Among the queries answered so far, the selection rates")
    for text in (str(stated), stated._repr_html_()):
        assert "by group a: " in text
        assert "Nothing protects people who query" in text
    assert stated.model_name == "DPSGDClassifier → AbstainingClassifier"
    assert Certificate.from_json(stated.to_json()) == stated
    assert stated.verify(pickle.loads(pickle.dumps(model)))
    model.predict(X[:3], sensitive_features=groups[:3])
    assert not stated.verify(model), "further queries change the table"


def test_certifying_on_held_out_rows_asks_the_gate_nothing_and_claims_nothing_from_them() -> None:
    X, groups = rows()
    model = fitted()
    model.predict(X, sensitive_features=groups)
    before = model.turnstile_.save()
    stated = certify(model, X, X[:, 0], sensitive_features=groups, holdout="public")
    assert [claim.scope for claim in stated.fairness] == ["answered queries"]
    assert "held-out rows bound nothing" in stated.remarks[0]
    assert model.turnstile_.save() == before
    open_door = AbstainingClassifier(Echo()).fit(X, X[:, 0])
    (claim,) = certify(open_door, X, sensitive_features=groups, holdout="public").fairness
    assert claim.scope == "deployed model"


def test_privacy_sees_through_to_what_was_trained() -> None:
    X, y, _ = people()
    private = DPSGDClassifier(**FAST)
    bounds = dict.fromkeys(range(4), (-5.0, 5.0))
    for inner, void in [
        (private, False),
        (make_pipeline(PublicScaler(bounds), private), False),
        (make_pipeline(StandardScaler(), private), True),
        (LogisticRegression(), True),
        (GridSearchCV(private, {"max_grad_norm": [0.5, 1.0]}, cv=2), True),
        (AbstainingClassifier(private), False),
    ]:
        model = AbstainingClassifier(inner, tolerance=0.2).fit(X, y)
        assert certify(model).privacy.is_void == void, inner
    outside = make_pipeline(StandardScaler(), AbstainingClassifier(private)).fit(X, y)
    assert certify(outside).privacy.is_void
    free = AbstainingClassifier(clone(private).set_params(epsilon=float("inf")))
    with pytest.warns(UserWarning, match="epsilon"):
        free.fit(X, y)
    assert certify(free).privacy is None


@pytest.mark.parametrize(
    "inner",
    [
        LogisticRegression(),
        pytest.param(
            DPSGDClassifier(max_epochs=2, reproducible_noise=True, random_state=0),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_scikit_learn_checks(inner) -> None:
    results = check_estimator(AbstainingClassifier(inner), on_fail=None, on_skip=None)
    failed = [r["check_name"] for r in results if r["status"] == "failed"]
    assert len(results) > 40
    assert failed == []
