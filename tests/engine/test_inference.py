"""Fitted nets answer in their own precision, and each thread gets the answers to its own rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from skorch import NeuralNetBinaryClassifier
from torch import Tensor, nn

from skfairdp import DPSGDClassifier, FairDPClassifier
from skfairdp.engine.inference import features_and_output, outputs_by_row
from skfairdp.engine.modules import MLP

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(300, 40))
LABELS = (TABLE[:, 0] > 0).astype(int)
GROUPS = np.resize(["a", "b"], 300)


def reduced() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def test_a_model_answers_as_it_was_certified() -> None:
    """What was certified outside of the block, and asked within, decided otherwise for some."""
    for model in (DPSGDClassifier(max_epochs=1), FairDPClassifier(max_epochs=1)):
        model.fit(TABLE, LABELS, sensitive_features=GROUPS)
        scores = model.predict_proba(TABLE)
        with reduced():
            np.testing.assert_array_equal(model.predict_proba(TABLE), scores)
            assert torch.is_autocast_enabled("cpu")


def test_rows_by_themselves_are_answered_in_full_precision() -> None:
    module, rows = MLP(40, 1, (8,), nn.ReLU), torch.from_numpy(TABLE).float()
    answers = outputs_by_row(module, rows)
    with reduced():
        assert torch.equal(outputs_by_row(module, rows), answers)


class Flat(nn.Module):
    """One number a row, without a second axis, as skorch has it for two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(40, 1)

    def forward(self, X: Tensor) -> Tensor:
        return self.head(X).squeeze(-1)


@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_a_module_that_returns_one_number_a_row_answers_after_its_fit(kind) -> None:
    """It trained, was charged, and could then not predict."""
    model = kind(net=NeuralNetBinaryClassifier(Flat), max_epochs=1, delta=1e-5)
    model.fit(TABLE, LABELS, sensitive_features=GROUPS)
    assert model.predict_proba(TABLE[:5]).shape == (5, 2)
    assert model.predict_proba(TABLE[:1]).shape == (1, 2)


ROWS, OTHERS = np.full((3, 2), 5.0), np.full((3, 2), 7.0)


class Watched(nn.Module):
    """Doubles rows ahead of its head, and lets something happen before it answers."""

    meanwhile: Callable[[], None] = staticmethod(lambda: None)  # of the class: copies share it

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 1)
        self.register_buffer("shift", torch.ones(1))

    def forward(self, X: Tensor) -> Tensor:
        output = self.head(2.0 * X) + self.shift
        type(self).meanwhile()
        return output


def test_features_are_those_of_the_rows_that_were_asked_about(monkeypatch) -> None:
    model = Watched()
    found = []

    def ask_too() -> None:
        monkeypatch.setattr(Watched, "meanwhile", staticmethod(lambda: None))
        # What digests would see.
        assert not model.head._forward_pre_hooks
        with ThreadPoolExecutor(1) as pool:
            found.append(pool.submit(features_and_output, model, model.head, OTHERS).result())

    # The last block of made-up rows is followed by the rows themselves.
    calls = []
    monkeypatch.setattr(Watched, "meanwhile", staticmethod(lambda: calls.append(1)))
    features_and_output(model, model.head, ROWS)
    left = iter(range(len(calls)))

    def at_last() -> None:
        if next(left) == len(calls) - 1:
            ask_too()

    monkeypatch.setattr(Watched, "meanwhile", staticmethod(at_last))
    features, output = features_and_output(model, model.head, ROWS)
    assert np.array_equal(features, 2.0 * ROWS)
    assert np.array_equal(found[0][0], 2.0 * OTHERS)
    assert output.shape == (3, 1)


def test_buffers_are_those_of_the_model_after_calls_that_overlap(monkeypatch) -> None:
    model = Watched().eval()
    shift, second_in, first_done = model.shift, threading.Event(), threading.Event()
    met: list[int] = []

    def overlap() -> None:
        """The first thread ends before the second, which began later."""
        own = threading.get_ident()
        if own in met:
            return
        met.append(own)
        if met[0] == own:
            second_in.wait(10)
        else:
            second_in.set()
            first_done.wait(10)

    monkeypatch.setattr(Watched, "meanwhile", staticmethod(overlap))

    def ask(rows: np.ndarray) -> Tensor:
        found = outputs_by_row(model, torch.from_numpy(rows).float())
        first_done.set()
        return found

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(ask, (ROWS, OTHERS))
    assert model.shift is shift
    assert torch.equal(shift, torch.ones(1))
    monkeypatch.setattr(Watched, "meanwhile", staticmethod(lambda: None))
    assert torch.equal(one, ask(ROWS))
    assert torch.equal(other, ask(OTHERS))
