"""What a process says to the others of a fit, seen from one of two: the other is played."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed

from skfairdp import DPSGDClassifier
from skfairdp.engine.overlap import Sketch, sketch
from skfairdp.engine.processes import Processes
from tests.processes import as_one_of_two

Gathered = Callable[[Any], Any]


class PlayedGroup:
    """Group of torch.distributed without connections."""

    group_name = "played"

    def _get_backend(self, device: torch.device) -> None:
        assert device.type == "cpu"


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Callable[[Gathered], Processes]:
    """Processes as the first of two sees them; the other answers what a function says."""
    as_one_of_two(monkeypatch)
    met: dict[str, int] = {}

    def meet(place: str, _: int) -> int:
        met[place] = met.get(place, 1) + 1  # the other is there already
        return met[place]

    store = SimpleNamespace(add=meet, set=met.__setitem__, wait=lambda _: None)
    monkeypatch.setattr(distributed.distributed_c10d, "_get_default_store", lambda: store)
    monkeypatch.setattr(distributed, "new_group", lambda **_: PlayedGroup())
    monkeypatch.setattr(distributed, "destroy_process_group", lambda _: None)

    def started(other: Gathered) -> Processes:
        def gather(found: list[Any], value: Any, group: Any) -> None:
            found[:] = [value, other(value)]

        def add(numbers: torch.Tensor, group: Any, dst: int = 0) -> None:
            numbers += 5

        for name, does in (
            ("all_gather_object", gather),
            ("all_reduce", add),
            ("reduce", add),
            ("broadcast", lambda *_, **__: None),
        ):
            monkeypatch.setattr(distributed, name, does)
        return Processes()

    return started


def test_processes_that_agree_go_on_and_a_difference_is_named_without_its_values(two) -> None:
    with two(lambda facts: facts) as processes:
        processes.agree({"classes": "ab"})
    with (
        pytest.raises(ValueError, match="differ in: classes, groups") as refused,
        two(lambda _: {"classes": "secret", "plan": "1"}) as processes,
    ):
        processes.agree({"classes": "ab", "groups": "fm", "plan": "1"})
    assert "secret" not in str(refused.value)


def test_sums_are_added_up_at_the_first_and_the_part_of_this_process_stays(two) -> None:
    with two(lambda value: value) as processes:
        part = torch.ones(3, dtype=torch.float64)
        assert processes.add_up(part).tolist() == [6.0] * 3
        assert part.tolist() == [1.0] * 3
        assert processes.total(torch.tensor(7)) == 12
        assert processes.hand_on(torch.ones(2, 2).T).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_weights_are_compared_at_regular_numbers_of_releases(two) -> None:
    asked = []
    with two(lambda facts: (asked.append(facts), facts)[1]) as processes:
        processes.watch(torch.zeros(4), 3)
        for _ in range(7):
            processes.hand_on(torch.zeros(1))
        processes.compare()
    assert len(asked) == 4  # at first, after 3 and 6, and at the end
    with (
        pytest.raises(ValueError, match="differ in: weights"),
        two(lambda _: {"weights": "others"}) as processes,
    ):
        processes.watch(torch.zeros(4), 3)


def test_copies_of_rows_are_refused_and_other_rows_are_not(two) -> None:
    rows = np.random.default_rng(0).normal(size=(500, 3))
    with (
        pytest.raises(ValueError, match="hold the same rows"),
        two(lambda value: value) as processes,
    ):
        processes.refuse_copies(lambda: [rows])
    keys: list[bytes] = []

    def with_other_rows(value: Any) -> Any:
        if isinstance(value, bytes):
            keys.append(value)
            return value
        return sketch([rows + 1.0], keys[-1])

    with two(with_other_rows) as processes:
        processes.refuse_copies(lambda: [rows])
    assert len(keys[0]) == 32


def test_a_process_that_is_gone_is_named_and_nothing_is_given_back(two) -> None:
    def gone(_: Any) -> Any:
        raise RuntimeError("Connection closed by peer")

    with (
        pytest.raises(RuntimeError, match="what was charged stays charged") as ended,
        two(gone) as processes,
    ):
        processes.first(1)
    assert "Connection closed" in str(ended.value.__cause__)


def test_a_fit_as_one_of_two_counts_the_rows_of_both_and_states_it(two) -> None:
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(60, 2)), np.arange(60) % 2
    keys: list[bytes] = []

    def other(value: Any) -> Any:
        if isinstance(value, bytes):
            keys.append(value)
        return sketch([X + 1.0], keys[-1]) if isinstance(value, Sketch) else value

    two(other)
    model = DPSGDClassifier(max_epochs=1, delta=1e-3, progress=False)
    groups = np.array(["a", "b"])[codes]
    model.fit(X, codes, sensitive_features=groups)
    assert model.plan_.segments[0].expected_sizes[0] / model.plan_.segments[0].rates[0] == (
        pytest.approx(65.0)  # the other says that it has five rows
    )
    stated = model.privacy_.assumptions if model.privacy_ else ()
    assert any("ran in 2 processes" in text for text in stated)
    with pytest.raises(ValueError, match="'person_ids' needs all rows in one process"):
        model.fit(X, codes, sensitive_features=groups, person_ids=np.arange(60))
    assert not hasattr(model, "receipt_")
