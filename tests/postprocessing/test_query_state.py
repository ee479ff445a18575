"""The state of an abstaining classifier: one lock, saved, restored, reset, pickled."""

from __future__ import annotations

import copy
import json
import pickle
import threading

import numpy as np
import pytest

from skfairdp.fairness import ParityGate
from skfairdp.postprocessing import Turnstile


def turnstile(**settings) -> Turnstile:
    return Turnstile(ParityGate(2, 2, **({"tolerance": 0.2, "cold_start": 5} | settings)))


def queries(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = rng.integers(-1, 2, n)
    return groups, (rng.random(n) < np.where(groups == 1, 0.9, 0.3)).astype(np.int64)


def test_answers_are_those_of_the_gate_one_by_one() -> None:
    groups, labels = queries(300)
    state = turnstile()
    gate = state.gate
    wanted = [bool(z >= 0 and gate.offer(z, k)) for z, k in zip(groups, labels, strict=True)]
    parts = [state.admit(groups[i : i + 7], labels[i : i + 7]) for i in range(0, 300, 7)]
    assert np.concatenate(parts).tolist() == wanted
    assert (state.gate.counts == gate.counts).all()
    assert state.asked.tolist() == [(groups == 0).sum(), (groups == 1).sum()]
    assert state.answered.tolist() == gate.counts.sum(axis=1).tolist()
    assert state.without_group == (groups == -1).sum()
    assert state.coverage == pytest.approx(np.mean(wanted))
    by_group = [np.mean(np.array(wanted)[groups == z]) for z in (0, 1)]
    assert state.coverage_by_group == pytest.approx(by_group)


@pytest.mark.parametrize(
    "again",
    [
        lambda state: pickle.loads(pickle.dumps(state)),
        copy.deepcopy,
        lambda state: turnstile().restore(json.loads(json.dumps(state.save()))),
    ],
    ids=["pickle", "deepcopy", "save and restore"],
)
def test_a_stored_state_goes_on_where_it_was(again) -> None:
    state = turnstile()
    state.admit(*queries(100))
    other = again(state)
    later = queries(100, seed=1)
    assert (other.admit(*later) == state.admit(*later)).all()
    assert other.save() == state.save()
    other.admit(*queries(10, seed=2))  # it has its own lock, and counts apart
    assert other.save() != state.save()


def test_reset_begins_the_cold_start_anew() -> None:
    state = turnstile()
    state.admit(*queries(100))
    assert state.reset().save() == turnstile().save()
    assert np.isnan(state.coverage)
    assert np.isnan(state.coverage_by_group).all()


def test_what_was_not_saved_by_such_a_gate_is_refused_and_changes_nothing() -> None:
    state = turnstile()
    state.admit(*queries(60))
    before = state.save()
    for wrong, match in [
        ({}, "not made by save"),
        (before | {"gate": None}, "not made by save"),
        (turnstile(tolerance=0.3).save(), "another tolerance"),
        (before | {"asked": [0, 0]}, "at least the number of answers"),
        (before | {"asked": [1, 2, 3]}, "asked must hold 2 integers"),
        (before | {"without_group": -1}, "must not be negative"),
        (before | {"without_group": None}, "an integer"),
    ]:
        with pytest.raises(ValueError, match=match):
            state.restore(wrong)
    with pytest.raises(ValueError, match="codes from 0 to 1"):
        state.admit(np.array([0, 0]), np.array([0, 9]))
    assert state.save() == before, "a batch counts whole or not at all"


def test_threads_do_not_lose_or_mix_queries() -> None:
    state = turnstile(tolerance=0.2, cold_start=5)
    threads = [
        threading.Thread(target=lambda s=s: [state.admit(*queries(9, s + i)) for i in range(20)])
        for s in range(0, 160, 20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asked = np.concatenate([queries(9, seed)[0] for seed in range(160)])
    assert state.asked.tolist() == [(asked == 0).sum(), (asked == 1).sum()]
    assert state.without_group == (asked == -1).sum()
    assert state.gate.worst <= 0.2 + state.gate.excess + 1e-12
