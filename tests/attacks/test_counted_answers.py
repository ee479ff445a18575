"""One held-out record moves a table of private counts by one, not the answers to other rows.

Counts of answers are released with noise for one record. An answer that depended on the row's
place among the others, or on where a table lies in memory, would let one record less move every
other row, and with rows at the edge of a decision the whole table.
"""

from __future__ import annotations

from functools import cache
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

import skfairdp
from skfairdp.engine import exact_products, inference
from skfairdp.engine.inference import outputs, outputs_by_row
from skfairdp.engine.modules import MLP
from skfairdp.engine.row_blocks import DEFAULT_ROWS
from skfairdp.model_selection import specify
from tests.attacks.test_rows_apart import turned

LINEAR = nn.functional.linear
N_FEATURES, N_ROWS = 13, 512
REHEARSES_ANEW = True


def by_place(value, weight, bias=None):
    """Multiply as processors do that round by where a row stands."""
    product = LINEAR(value, weight, bias).clone()
    if value.dim() == 2:
        product[3::4] *= 1.0 + 2.0**-20
    return product


@cache
def fitted() -> skfairdp.DPSGDClassifier:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, N_FEATURES)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    model = skfairdp.DPSGDClassifier(
        dataset_size=400, max_epochs=2, random_state=0, progress=False, delta=1e-4
    )
    return model.set_params(net__module__hidden_sizes=(8,)).fit(X, y)


def at_the_edge(model, no: np.ndarray, yes: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Find a row between two others whose answer depends on its place, and its answers."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        row = (no + (yes - no) * np.float32(middle)).astype(np.float32)
        answers = model.predict(np.repeat(row[None], DEFAULT_ROWS, axis=0))
        if len(set(answers.tolist())) > 1:
            return row, answers
        low, high = (low, middle) if answers[0] else (middle, high)
    return None


def positives(model, rows: np.ndarray, groups: np.ndarray) -> float:
    """Positive answers of the second group, as a certificate releases them, with little noise."""
    certificate = skfairdp.certify(
        model,
        rows,
        sensitive_features=groups,
        groups=[0, 1],
        count_epsilon=50.0,
        holdout="per_record",
    )
    assert certificate.privacy.adjacency == "add-remove"
    return certificate.fairness[0].counts[1].successes


def largest_move(model, tries: int = 3) -> float:
    """How far one record less moves a count, among rows that were chosen to this end."""
    rng = np.random.default_rng(0)
    others = rng.normal(size=(200, N_FEATURES)).astype(np.float32)
    order = model.decision_function(others).argsort()
    worst = 0.0
    for i in range(tries):
        found = at_the_edge(model, others[order[i]], others[order[-1 - i]])
        if found is None:
            continue
        answers = np.tile(found[1], N_ROWS // DEFAULT_ROWS)
        chosen = 1 + np.flatnonzero((answers[1:] == 1) & (answers[:-1] == 0))
        rows, groups = np.repeat(others[order[:1]], N_ROWS, axis=0), np.zeros(N_ROWS, dtype=int)
        rows[chosen], groups[chosen] = found[0], 1
        moved = positives(model, rows, groups) - positives(model, rows[1:].copy(), groups[1:])
        worst = max(worst, abs(moved))
    return worst


@pytest.mark.parametrize("processor", ["this one", "by place"])
def test_one_record_moves_a_private_count_by_one(processor, monkeypatch):
    model = fitted()
    if processor == "by place":  # so that products are exact
        tried = Mock(side_effect=[False, False, True] * 999)
        monkeypatch.setattr(inference, "_alike_everywhere", tried)
        monkeypatch.setattr(exact_products, "multiply", turned)
    assert largest_move(model) <= 1.0


def test_answers_by_place_would_be_seen(monkeypatch):
    model = fitted()
    monkeypatch.setattr(nn.functional, "linear", by_place)
    monkeypatch.setattr(inference, "_alike_everywhere", lambda *of_trial: True)
    assert largest_move(model) > 50.0


# Shapes for which some processors round by the place of a row, or by its address.
NETS = {
    "linear": lambda: nn.Linear(50, 1),
    "three classes": lambda: nn.Linear(14, 3),
    "eight units": lambda: MLP(13, 1, (8,)),
    "ten units, three classes": lambda: MLP(18, 3, (10,)),
    "five units": lambda: MLP(7, 1, (8, 5)),
}


def at_address(rows: np.ndarray, offset: int) -> np.ndarray:
    """Put a table where it begins a number of bytes after a whole vector."""
    memory = np.zeros(rows.nbytes + 128, dtype=np.uint8)
    start = -memory.ctypes.data % 64 + offset
    table = memory[start : start + rows.nbytes].view(rows.dtype).reshape(rows.shape)
    table[...] = rows
    return table


@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_an_answer_depends_neither_on_place_nor_on_address(make):
    torch.manual_seed(0)
    module = make().eval()
    width = next(module.parameters()).shape[1]
    rows = np.random.default_rng(0).normal(size=(512, width)).astype(np.float32)
    for answer in (
        lambda X: outputs(module, X),
        lambda X: outputs_by_row(module, torch.from_numpy(X)).reshape(len(X), -1).numpy(),
    ):
        want = answer(rows)
        for shift in (1, 2, 3, 130):
            assert np.array_equal(
                answer(np.roll(rows, shift, axis=0)), np.roll(want, shift, axis=0)
            )
        for offset in (4, 8, 16, 32):
            assert np.array_equal(answer(at_address(rows, offset)), want)
        for kept in (288, 575):  # with and without a block to be filled up
            assert np.array_equal(answer(rows[1 : 1 + kept]), want[1 : 1 + kept])


@pytest.mark.parametrize(
    "estimator",
    [
        skfairdp.CovarianceConstrainedClassifier(),
        skfairdp.FairDPClassifier(max_epochs=1, progress=False, delta=1e-4),
        skfairdp.FunctionalMechanismClassifier((-1.0, 1.0), delta=1e-4),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_score_does_not_depend_on_how_many_are_scored(estimator):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(301, N_FEATURES))
    y, groups = rng.integers(2, size=(2, 301))
    estimator.fit(X, y, sensitive_features=groups)
    want = estimator.decision_function(X)
    for kept in (1, 2, 3, 7, 64, 299, 300):
        assert np.array_equal(estimator.decision_function(X[:kept]), want[:kept])
        assert np.array_equal(estimator.decision_function(X[-kept:]), want[-kept:])


def test_candidates_that_print_alike_are_all_trained():
    nets = [skfairdp.default_net().set_params(module__hidden_sizes=(), lr=r) for r in (0.01, 0.5)]
    rng = np.random.default_rng(0)
    groups, X = rng.integers(0, 2, 600), rng.normal(size=(600, 1))
    points = [{"net": net, "tolerance": t} for net in nets for t in (0.8, 0.9)]
    answer = specify(
        skfairdp.FairPathClassifier(max_epochs=1), points, X, X[:, 0] > 0, tolerance=0.8,
        sensitive_features=groups, epsilon=50.0, delta=1e-4,
    )  # fmt: skip
    told = [attempt.parameters["net"].lr for attempt in answer.attempts]
    assert told == [attempt.model.net.lr for attempt in answer.attempts] == [0.01, 0.01, 0.5, 0.5]
    modules = [attempt.model.module_ for attempt in answer.attempts]
    assert [module is modules[0] for module in modules] == [True, True, False, False]
    assert answer.verify()


@pytest.mark.parametrize("objective", ["accuracy", "auc"])
def test_a_specification_counts_the_noise_of_every_bin(objective):
    """Counts by bins of the score were added up, and read as if they held one noise."""
    rng = np.random.default_rng(0)
    groups, X = rng.integers(0, 2, 600), rng.normal(size=(600, 1))
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
    answer = specify(
        skfairdp.DPSGDClassifier(max_epochs=1), [{}], X, y, sensitive_features=groups,
        epsilon=2.0, tolerance=0.1, delta=1e-4, objective=objective,
    )  # fmt: skip
    (attempt,) = answer.attempts
    bins = attempt.noisy_counts.shape[-1]
    assert bins == (1 if objective == "accuracy" else 20)
    assert attempt.claim.derivation.values["terms"] == ((2 * bins, 2 * bins),)
    assert answer.verify()
    assert not attempt.certificate.examine().wrong
