"""Copies of an abstaining classifier: whose answers are even, and what is said of it."""

from __future__ import annotations

import copy
import pickle
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from skfairdp.exceptions import TableError
from skfairdp.postprocessing import AbstainingClassifier
from tests.processes import in_one_worker

GROUPS = ("a", "b")


class Echo(ClassifierMixin, BaseEstimator):
    """Predicts the sign of the first column."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(int)


def fitted(table: Path | None = None, **settings) -> AbstainingClassifier:
    X = np.array([[1.0], [-1.0]] * 20)
    model = AbstainingClassifier(Echo(), tolerance=0.1, table=table, **settings)
    return model.fit(X, (X[:, 0] > 0).astype(int), sensitive_features=np.array([*GROUPS] * 20))


def ask(model: AbstainingClassifier, share: float, rate: float, seed: int = 0) -> np.ndarray:
    """Table of the answers to people of one kind, shape (2, 2)."""
    rng = np.random.default_rng(seed)
    groups = np.where(rng.random(600) < share, *GROUPS)
    X = np.where(rng.random(600) < rate, 1.0, -1.0)[:, None]
    answers = model.predict(X, sensitive_features=groups)
    return np.array([[((groups == z) & (answers == k)).sum() for k in (0, 1)] for z in GROUPS])


def gap(table: np.ndarray) -> float:
    rates = table[:, 1] / table.sum(axis=1)
    return float(abs(rates[0] - rates[1]))


def answers_of_two_copies(model: AbstainingClassifier) -> np.ndarray:
    """One worker meets group a, who mostly pass, the other group b, who mostly don't."""
    workers = [pickle.loads(pickle.dumps(model)) for _ in range(2)]
    return ask(workers[0], 0.9, 0.95) + ask(workers[1], 0.1, 0.05)


def test_copies_that_share_a_table_are_even_together(tmp_path: Path) -> None:
    model = fitted(tmp_path / "answers")
    answers = answers_of_two_copies(model)
    np.testing.assert_array_equal(model.turnstile_.gate.counts, answers)
    assert gap(answers) <= 0.1
    (claim,) = model.certify().fairness
    assert claim.bound <= 0.1 + 1e-12
    assert any(
        "'answers'" in text and "answers of all copies of this fitted model" in text
        for text in claim.assumptions
    )


def test_copies_that_count_apart_are_not_and_the_certificate_says_so() -> None:
    model = fitted()
    assert gap(answers_of_two_copies(model)) > 0.5
    said = [text for text in model.certify().fairness[0].assumptions if "this copy" in text]
    assert len(said) == 1
    assert "count apart" in said[0]
    assert "stored" not in said[0]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_that_goes_on_from_a_stored_table_says_so(again: Callable) -> None:
    model = fitted()
    given = int(ask(model, 0.5, 0.5).sum())
    other = again(model)
    ask(model, 0.5, 0.5, seed=1)
    (claim,) = other.certify().fairness
    said = f"stored with {given} answers: what was answered elsewhere since then is not in its"
    assert any(said in text for text in claim.assumptions)


def test_a_forked_process_goes_on_from_a_stored_table(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted()
    monkeypatch.setattr("skfairdp.postprocessing.query_state.os.getpid", lambda: -1)
    assert "went on from a copy" in model.turnstile_.scope


def test_a_shared_table_is_never_stale(tmp_path: Path) -> None:
    model = fitted(tmp_path / "answers")
    other = pickle.loads(pickle.dumps(model))
    issued = other.certify()
    assert issued.verify(other)
    ask(model, 0.5, 0.5)
    assert other.turnstile_.save() == model.turnstile_.save()
    assert not issued.verify(other)  # others have answered since
    other.turnstile_.reset()
    assert not model.turnstile_.asked.any()


@in_one_worker
def test_processes_and_threads_lose_no_answer(tmp_path: Path) -> None:
    model = fitted(tmp_path / "answers")
    with joblib.parallel_config(backend="loky", n_jobs=2):
        parts = joblib.Parallel()(
            joblib.delayed(ask)(model, 0.5 + 0.4 * (-1) ** i, 0.5 + 0.4 * (-1) ** i, seed=i)
            for i in range(6)
        )
    threads = [
        threading.Thread(target=lambda i=i: parts.append(ask(model, 0.7, 0.3, seed=i)))
        for i in range(6, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = np.sum(parts, axis=0)
    np.testing.assert_array_equal(model.turnstile_.gate.counts, together)
    assert model.turnstile_.asked.sum() == 9 * 600
    assert gap(together) <= 0.1


def test_every_fit_begins_a_table_of_its_own(tmp_path: Path) -> None:
    first = fitted(tmp_path / "answers")
    ask(first, 0.5, 0.5)
    before = first.turnstile_.save()
    second = fitted(tmp_path / "answers")
    assert not second.turnstile_.asked.any()
    ask(second, 0.9, 0.9)
    assert first.turnstile_.save() == before


def test_a_batch_that_fails_counts_nothing(tmp_path: Path) -> None:
    model = fitted(tmp_path / "answers")
    with pytest.raises(ValueError, match="codes from 0 to 1"):
        model.turnstile_.admit(np.array([0, 0]), np.array([0, 9]))
    assert not model.turnstile_.asked.any()


def test_answers_are_not_forgotten_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    model = fitted(path)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(TableError, match="cannot be used: unable to open"):
        ask(model, 0.5, 0.5)
    assert not path.exists()
    fitted(path)
    with pytest.raises(TableError, match="has no table of this model any more"):
        ask(model, 0.5, 0.5)


def test_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    foreign, text = tmp_path / "foreign", tmp_path / "text"
    with closing(sqlite3.connect(foreign)) as connection, connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    text.write_text("not a data base, and long enough to be told apart from one" * 9)
    before = foreign.read_bytes(), text.read_bytes()
    with pytest.raises(TableError, match="another program"):
        fitted(foreign)
    with pytest.raises(TableError, match="cannot be used"):
        fitted(text)
    with pytest.raises(TableError, match="unable to open"):
        fitted(tmp_path / "no folder" / "answers")
    assert (foreign.read_bytes(), text.read_bytes()) == before


def test_a_table_without_groups_is_refused(tmp_path: Path) -> None:
    X = np.array([[1.0], [-1.0]])
    with pytest.raises(ValueError, match="'table' is .* but no groups are known"):
        AbstainingClassifier(Echo(), table=tmp_path / "answers").fit(X, [1, 0])
    with pytest.raises(ValueError, match="'table' parameter.*must be None or a path"):
        AbstainingClassifier(Echo(), table=3).fit(X, [1, 0], sensitive_features=["a", "b"])
