"""Models that draw for each row from NumPy's shared generator are asked for all rows at once."""

from __future__ import annotations

import numpy as np
import pytest
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.linear_model import LogisticRegression

from skfairdp import certify
from skfairdp.certificate.replayed_draws import SINGLE, replayed_answers

N, CALLS = 400, 20
CHANCE = np.linspace(0.2, 0.8, N)


def own_draw(rows: np.ndarray) -> np.ndarray:
    return np.random.rand(len(rows)) < CHANCE[rows]  # noqa: NPY002


def one_draw_a_call(rows: np.ndarray) -> np.ndarray:
    return np.random.rand(1) < CHANCE[rows]  # noqa: NPY002


def half_of_a_call(rows: np.ndarray) -> np.ndarray:
    return np.argsort(np.random.rand(len(rows))) < 0.5 * len(rows)  # noqa: NPY002


def pairs_against_each_other(rows: np.ndarray) -> np.ndarray:
    draws = np.random.rand(len(rows))  # noqa: NPY002
    draws[1::2] = 1.0 - draws[: len(rows) // 2 * 2 : 2]
    return draws < CHANCE[rows]


def also_the_draw_before(rows: np.ndarray) -> np.ndarray:
    draws = np.random.rand(len(rows))  # noqa: NPY002
    return (draws + np.roll(draws, 1)) % 1.0 < CHANCE[rows]


def scaled_by_the_call(rows: np.ndarray) -> np.ndarray:
    return np.random.rand(len(rows)) < 0.5 * CHANCE[rows] / CHANCE[rows].mean()  # noqa: NPY002


def with_one_seed(rows: np.ndarray) -> np.ndarray:
    return np.random.RandomState(0).rand(len(rows)) < CHANCE[rows]


def from_another_generator(rows: np.ndarray) -> np.ndarray:
    return np.random.default_rng().random(len(rows)) < CHANCE[rows]


def evenly_spread(rows: np.ndarray) -> np.ndarray:
    return (np.random.rand() + np.arange(len(rows)) / len(rows)) % 1 < CHANCE[rows]  # noqa: NPY002


def test_answers_are_those_of_rows_with_draws_of_their_own():
    # A sum of 200 independent answers a row: binomial, so within 6 standard deviations in 400
    # rows but for a chance of 400 * 2e-9 = 8e-7.
    counted = np.zeros(N)
    for _ in range(200):
        answers = replayed_answers(own_draw, np.arange(N), CALLS)
        assert answers is not None
        counted += answers
    assert np.all(np.abs(counted / 200 - CHANCE) < 6 * np.sqrt(CHANCE * (1 - CHANCE) / 200))


def test_the_shared_generator_goes_on_after_the_call():
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    replayed_answers(own_draw, np.arange(N), CALLS)
    after = np.random.rand()  # noqa: NPY002
    np.random.set_state(before)  # noqa: NPY002
    assert np.random.rand(N + 1)[-1] == after  # noqa: NPY002


@pytest.mark.parametrize(
    "ask",
    [
        one_draw_a_call, half_of_a_call, pairs_against_each_other, also_the_draw_before,
        scaled_by_the_call, with_one_seed, from_another_generator, evenly_spread,
    ],
)  # fmt: skip
def test_rows_that_share_draws_or_company_are_noticed(ask):
    # The answer that is least likely to be noticed, of rows whose draws are those of the row
    # before, changes with a chance of more than .1 at each of 200 rows: .9 ** 200 < 1e-9.
    assert replayed_answers(ask, np.arange(N), CALLS) is None


def test_few_rows_are_asked_one_at_a_time_at_once():
    assert replayed_answers(own_draw, np.arange(SINGLE + CALLS), CALLS) is None


def test_a_threshold_optimizer_is_certified_without_a_call_for_each_row(monkeypatch):
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 400)
    X = rng.normal(size=(800, 2)) + (groups == "a")[:, None]
    y = (X[:, 0] > 0.5).astype(int)
    model = ThresholdOptimizer(
        estimator=LogisticRegression(), predict_method="predict_proba",
        constraints="demographic_parity",
    ).fit(X[::2], y[::2], sensitive_features=groups[::2])  # fmt: skip
    calls = []
    predict = ThresholdOptimizer.predict

    def counted(self, X, *, sensitive_features):
        calls.append(len(X))
        return predict(self, X, sensitive_features=sensitive_features)

    monkeypatch.setattr(ThresholdOptimizer, "predict", counted)
    held = {"sensitive_features": groups[1::2], "holdout": "public"}
    certificate = certify(model, X[1::2], y[1::2], **held)
    assert len(calls) < 1 + 1 + SINGLE + 2 * CALLS + 1
    assert "with the same numbers drawn again" in str(certificate)
    assert certificate.fairness[0].bound < 0.3
