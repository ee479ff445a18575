"""One protocol of questions: who answers is believed, who only passes them on is not."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.tree import DecisionTreeClassifier

import skfairdp
from skfairdp import certify
from skfairdp.protocol import Certifiable, answers_of
from skfairdp.receipts.unwrap import charges_privacy, learns_from_rows, releases_rows
from tests.certificate.fakes import Doubler, ThresholdClassifier, people, stated

QUESTIONS = [name for name in vars(Certifiable) if name[0] == "_" != name[1]]


def test_the_questions_are_those_that_are_documented():
    assert len(QUESTIONS) == 11
    for name in QUESTIONS:
        described = inspect.getdoc(Certifiable) if not callable(getattr(Certifiable, name)) else (
            inspect.getdoc(getattr(Certifiable, name))
        )  # fmt: skip
        assert described
        assert callable(getattr(Certifiable, name)) or f"\n{name} : " in described


def test_nobody_looks_for_an_answer_elsewhere():
    """No getattr or hasattr with the name of a question in the package."""
    found = []
    for path in Path(skfairdp.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if call and node.func.id in ("getattr", "hasattr") and len(node.args) > 1:
                name = getattr(node.args[1], "value", None)
                found += [f"{path.name}:{node.lineno}"] if name in QUESTIONS else []
    assert found == []


@pytest.mark.parametrize("step", [LogisticRegression(), object(), None, "passthrough"])
def test_what_answers_nothing_promises_nothing(step):
    silent = answers_of(step)
    assert not charges_privacy(step)
    assert not releases_rows(step)
    assert (silent._post_processes, silent._draws_afresh) == (None, False)
    assert silent._learns_from_rows
    assert not silent._group_blind
    assert silent._hidden_codes(None, None)[1:] == (1, 0.0)
    assert silent._mechanism_fairness("demographic_parity") == []
    assert silent._success_scores(None) is silent._own_models(()) is None
    assert silent._changed_since_fit() != ()


class Wrapper:
    """Passes every question on, and itself off as what it holds."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    @property
    def __class__(self):
        return type(self.inner)


@pytest.mark.parametrize("inner", [ThresholdClassifier(), Doubler()])
def test_a_wrapper_is_not_believed_what_it_passes_on(inner):
    wrapper = Wrapper(inner)
    assert isinstance(wrapper, Certifiable)
    assert wrapper._charges_privacy == inner._charges_privacy
    assert not charges_privacy(wrapper)
    assert learns_from_rows(wrapper)


class Outside(Certifiable, LogisticRegression):
    """An estimator of somebody else that states what its fit spent."""

    _charges_privacy = True

    def fit(self, X, y):
        super().fit(X, y)
        self.privacy_ = stated()
        return self

    def _changed_since_fit(self):
        return ()


def test_an_estimator_of_others_that_answers_is_certified():
    rows = people()
    assert certify(Outside().fit(rows.X, rows.y)).privacy == stated()
    assert certify(LogisticRegression().fit(rows.X, rows.y)).privacy.is_void


@pytest.mark.parametrize("kinds", [2, 3])  # of the second output; lists of classes may differ
@pytest.mark.parametrize(
    "model",
    [
        ClassifierChain(LogisticRegression()),
        MultiOutputClassifier(LogisticRegression()),
        DecisionTreeClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_of_several_outputs_is_refused_by_name(model, kinds: int) -> None:
    X = [[float(i % 5), float(i % 3)] for i in range(30)]
    y = [i % 2 for i in range(30)]
    fitted = model.fit(X, [[label, i % kinds] for i, label in enumerate(y)])
    groups = ["ab"[i % 2] for i in range(30)]
    with pytest.raises(ValueError, match=rf"{type(model).__name__} answers with several outputs"):
        certify(fitted, X, y, sensitive_features=groups, holdout="public")
    with pytest.raises(ValueError, match="certify a classifier of one output"):
        certify(fitted)
