"""The parity gate: its rule, its promise, and the published rules that break it."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from skfairdp.fairness import ParityGate, answered_guarantee
from skfairdp.fairness.gate import smallest_cold_start


def gaps(counts: np.ndarray) -> list[list[Fraction]]:
    """Γ of every cell in exact arithmetic, from the definition."""
    table = [[int(m) for m in row] for row in counts]
    result = []
    for z, row in enumerate(table):
        others = [other for j, other in enumerate(table) if j != z]
        rest = sum(map(sum, others))
        result.append(
            [
                Fraction(row[k], sum(row)) - Fraction(sum(o[k] for o in others), rest)
                if sum(row) and rest
                else Fraction(0)
                for k in range(len(row))
            ]
        )
    return result


def excess(counts: np.ndarray, tolerance: str) -> Fraction:
    return beyond(gaps(counts), tolerance)


def beyond(exact: list[list[Fraction]], tolerance: str) -> Fraction:
    limit = Fraction(tolerance)
    return sum((gap - limit for row in exact for gap in row if gap > limit), Fraction(0))


def feed(gate: ParityGate, stream: Iterable[tuple[int, int]]) -> list[bool]:
    return [gate.offer(group, label) for group, label in stream]


class Stream(RuleBasedStateMachine):
    """Any sequence of offers, with snapshots taken and restored in between."""

    @initialize(
        groups=st.integers(2, 5),
        classes=st.integers(2, 4),
        tolerance=st.sampled_from(["0.1", "0.2", "0.3", "0.5", "1.0"]),
        longer=st.integers(0, 3),
    )
    def start(self, groups: int, classes: int, tolerance: str, longer: int) -> None:
        self.limit = tolerance
        start = smallest_cold_start(float(tolerance)) + longer
        self.gate = ParityGate(groups, classes, tolerance=float(tolerance), cold_start=start)
        self.before: Fraction | None = None
        self.checked: tuple[object, ...] = ()

    @rule(group=st.integers(0, 4), label=st.integers(0, 3), times=st.integers(1, 12))
    def ask(self, group: int, label: int, times: int) -> None:
        group, label = group % self.gate.n_groups, label % self.gate.n_classes
        for _ in range(times):
            counts, was_open = self.gate.counts, self.gate.open
            foreseen = self.gate.accepts(group, label)
            assert (self.gate.counts == counts).all()
            passed = self.gate.offer(group, label)
            assert passed == foreseen
            counts[group, label] += passed
            assert (self.gate.counts == counts).all()
            assert passed or was_open
            self.check()

    @rule(label=st.integers(0, 3))
    def finish_cold_start(self, label: int) -> None:
        for group in range(self.gate.n_groups):
            while not self.gate.open and self.gate.counts[group].sum() < self.gate.cold_start:
                assert self.gate.offer(group, (label * group) % self.gate.n_classes)
        self.check()

    @rule()
    def store_and_load(self) -> None:
        again = pickle.loads(pickle.dumps(self.gate)).copy()
        state = json.loads(json.dumps(again.state))
        again.restore(state)
        assert (again.counts == self.gate.counts).all()
        self.gate = again

    @invariant()
    def never_worse(self) -> None:
        if hasattr(self, "gate"):
            self.check()

    def check(self) -> None:
        """After the cold start the excess, in exact arithmetic, never grows."""
        state = self.gate, self.gate.counts.tobytes(), self.gate.excess
        if not self.gate.open or state == self.checked:
            return
        self.checked = state
        exact = gaps(self.gate.counts)
        now = beyond(exact, self.limit)
        assert self.before is None or now <= self.before
        self.before = now
        np.testing.assert_allclose(self.gate.gaps(), np.array(exact, dtype=float), atol=1e-12)
        assert self.gate.excess == pytest.approx(float(now), abs=1e-12)
        assert self.gate.worst == pytest.approx(float(max(map(max, exact))), abs=1e-12)


@pytest.mark.parametrize(
    "examples", [20, pytest.param(400, marks=pytest.mark.slow)], ids="{} streams".format
)
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
def test_on_any_stream_the_excess_never_grows_and_counts_are_exact(examples: int) -> None:
    run_state_machine_as_test(
        Stream, settings=settings(max_examples=examples, stateful_step_count=30)
    )


def test_an_answer_passes_iff_all_cells_are_within_or_the_excess_falls() -> None:
    """The whole rule, against its text in exact arithmetic, ties and boundaries included."""
    rng = random.Random(1)
    for limit in ("0.1", "0.2", "0.25", "0.3"):
        for groups, classes in ((2, 2), (3, 2), (3, 3), (4, 3)):
            start = smallest_cold_start(float(limit))
            gate = ParityGate(groups, classes, tolerance=float(limit), cold_start=start)
            for _ in range(250):
                group = rng.randrange(groups)
                label = min(rng.randrange(classes), (group + rng.randrange(2)) % classes)
                after = gate.counts
                after[group, label] += 1
                wanted = (
                    bool((gate.counts.sum(axis=1) < start).any())
                    or excess(after, limit) == 0
                    or excess(after, limit) < excess(gate.counts, limit)
                )
                assert gate.offer(group, label) == wanted


def test_a_gap_of_exactly_the_tolerance_is_within() -> None:
    # As floats 8/10 - 5/10 > 0.3; the table is within 3/10 nevertheless.
    gate = ParityGate(2, 2, tolerance=0.3, cold_start=9)
    gate.restore(gate.state | {"counts": [[2, 7], [5, 5]]})
    assert 8 / 10 - 5 / 10 > 0.3
    assert gate.offer(0, 1)
    published = ParityGate(2, 2, tolerance=0.3, cold_start=9, rule="queried_cell")
    published.restore(published.state | {"counts": [[2, 7], [5, 5]]})
    assert not published.offer(0, 1), "the published rule asks for strictly less"


def test_an_answer_that_leaves_the_excess_as_it_is_does_not_pass() -> None:
    gate = ParityGate(2, 2, tolerance=0.5, cold_start=2)
    assert all(feed(gate, [(0, 0), (0, 0), (1, 1), (1, 1)]))
    assert feed(gate, [(0, 0), (1, 1), (0, 1)]) == [False, False, True]


def test_cold_start_is_joint_over_all_cells_and_per_group_in_the_published_rule() -> None:
    everybody = ParityGate(2, 2, tolerance=0.5, cold_start=2)
    assert all(feed(everybody, [(0, 1)] * 50)), "group 1 has no answer yet, so nothing is gated"
    published = ParityGate(2, 2, tolerance=0.5, cold_start=2, rule="queried_cell")
    stream = [(0, 1), (0, 1), (1, 0), (1, 0), (0, 1)]
    assert feed(published, stream) == [True, True, True, True, False]


def test_a_group_without_others_to_compare_with_has_no_disparity() -> None:
    for rule_name in ("all_cells", "queried_cell"):
        gate = ParityGate(3, 2, tolerance=0.5, cold_start=2, rule=rule_name)
        feed(gate, [(0, 1), (0, 1), (0, 1)])
        assert gate.worst == 0.0
        assert (gate.gaps() == 0.0).all()
    alone = ParityGate(1, 2, tolerance=0.5, cold_start=2)
    assert all(feed(alone, [(0, 1)] * 20))


def test_published_rule_lets_other_cells_drift_with_three_groups() -> None:
    """Counter-example: every accepted answer has its own cell below γ, another ends far above."""
    rng = random.Random(0)
    # Half of the cells' own labels; groups 1 and 2 ask last and all for label 0.
    stream = [(z, k) for z in range(3) for k in (0, 1) for _ in range(10)]
    stream += [(rng.choice([1, 2]), 0) for _ in range(400)]
    published = ParityGate(3, 2, tolerance=0.1, cold_start=10, rule="queried_cell")
    sound = ParityGate(3, 2, tolerance=0.1, cold_start=10)
    feed(published, stream)
    feed(sound, stream)
    assert published.counts.sum() > 250, "it went on answering"
    assert published.worst > 0.25, "and group 0 is left with far more of label 1"
    assert sound.worst <= 0.1


def test_published_rule_is_exhaustive_with_two_groups_and_two_classes() -> None:
    rng = random.Random(2)
    gate = ParityGate(2, 2, tolerance=0.1, cold_start=20, rule="queried_cell")
    feed(gate, ((z := rng.randrange(2), int(rng.random() < (0.3, 0.8)[z])) for _ in range(4000)))
    assert gate.worst < 0.1


def deadlocked(rule_name: str, seed: int) -> bool:
    """Whether 3,000 queries from three groups end with a gate that can accept nothing."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3), size=3)
    gate = ParityGate(3, 3, tolerance=0.05, cold_start=40)
    sizes = rng.multinomial(120, np.ones(3) / 3)
    for group in range(3):
        for label in rng.choice(3, size=max(40, sizes[group]), p=shares[group]):
            gate.offer(group, int(label))
    while True:
        cells = [(z, k) for z in range(3) for k in range(3)]
        passing = [cell for cell in cells if accepts(gate, rule_name, *cell)]
        if not passing:
            return True
        if gate.worst <= 0.05 or gate.counts.sum() > 3000:
            return False
        group, label = passing[rng.integers(len(passing))]
        state = gate.counts
        state[group, label] += 1
        gate.restore(gate.state | {"counts": state.tolist()})


def accepts(gate: ParityGate, rule_name: str, group: int, label: int) -> bool:
    if rule_name == "all_cells":
        return gate.accepts(group, label)
    after = gate.counts
    after[group, label] += 1
    other = gate.copy().restore(gate.state | {"counts": after.tolist()})
    return other.worst <= max(gate.tolerance, gate.worst)


@pytest.mark.slow
def test_asking_only_that_the_worst_cell_does_not_grow_can_deadlock_for_good() -> None:
    """Why the rule speaks of the total excess: documentation by simulation."""
    runs = range(30)
    worst_only = sum(deadlocked("worst cell does not grow", seed) for seed in runs)
    excess_rule = sum(deadlocked("all_cells", seed) for seed in runs)
    assert worst_only > 0
    assert excess_rule < worst_only


def stuck_gate() -> ParityGate:
    """A table above γ in which no single answer lowers the excess (found by search)."""
    gate = ParityGate(3, 3, tolerance=0.05, cold_start=40)
    counts = [[51, 47, 29], [44, 51, 14], [42, 63, 31]]
    return gate.restore(gate.state | {"counts": counts})


def test_a_gate_that_can_accept_nothing_says_so() -> None:
    gate = stuck_gate()
    before = gate.counts
    assert gate.stuck
    assert gate.open
    assert gate.worst > 0.05
    assert not any(feed(gate, [(z, k) for z in range(3) for k in range(3)] * 5))
    assert (gate.counts == before).all()
    claim = answered_guarantee(
        gate, groups="abc", classes=(0, 1, 2), asked=gate.counts.sum(axis=1) + 15
    )
    assert any("deadlocked" in text for text in claim.assumptions)
    fresh = ParityGate(3, 3, tolerance=0.05, cold_start=40)
    assert not fresh.stuck


def test_a_zero_tolerance_in_the_published_rule_is_stuck_after_its_cold_start() -> None:
    gate = ParityGate(2, 2, tolerance=0, cold_start=0, rule="queried_cell")
    assert gate.stuck
    assert not gate.offer(0, 0)


@pytest.mark.parametrize(
    ("tolerance", "needed"), [(0.01, 100), (0.3, 4), (0.07, 15), (1.0, 1), (0.1, 10)]
)
def test_a_short_cold_start_is_refused_with_the_number_needed(tolerance, needed) -> None:
    assert smallest_cold_start(tolerance) == needed
    ParityGate(2, 2, tolerance=tolerance, cold_start=needed)
    with pytest.raises(ValueError, match=f"at least {needed} answers"):
        ParityGate(2, 2, tolerance=tolerance, cold_start=needed - 1)
    ParityGate(2, 2, tolerance=tolerance, cold_start=0, rule="queried_cell")


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"tolerance": 0}, "tolerance=0 is not possible.*0.01 needs cold_start=100"),
        ({"tolerance": -0.1}, "tolerance=-0.1 is not allowed: give a number >= 0 and <= 1"),
        ({"tolerance": 1.1}, "tolerance=.* a number"),
        ({"tolerance": float("nan")}, "tolerance=.* a number"),
        ({"cold_start": -1}, "cold_start=-1 .*an integer >= 0"),
        ({"cold_start": 2.5}, "cold_start="),
        ({"rule": "every"}, r"rule='every' .*'all_cells' \| 'queried_cell'"),
        ({"n_groups": 0}, "n_groups=0"),
        ({"n_classes": 1}, "n_classes=1"),
    ],
)
def test_wrong_settings_are_refused(wrong, match) -> None:
    right = {"n_groups": 2, "n_classes": 2, "tolerance": 0.1, "cold_start": 10}
    with pytest.raises(ValueError, match=match):
        ParityGate(**(right | wrong))


def test_codes_and_stored_states_that_do_not_fit_are_refused() -> None:
    gate = ParityGate(2, 3, tolerance=0.5, cold_start=2)
    for group, label in [(-1, 0), (2, 0), (0, -1), (0, 3)]:
        with pytest.raises(ValueError, match="codes from 0 to 1 and from 0 to 2"):
            gate.offer(group, label)
    assert gate.counts.sum() == 0
    other = ParityGate(2, 3, tolerance=0.5, cold_start=3)
    with pytest.raises(ValueError, match="another cold_start"):
        gate.restore(other.state)
    for counts in ([[1, 2], [3, 4]], [[1, 2, -3], [0, 0, 0]], [[0.5, 0, 0], [0, 0, 0]], None):
        with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
            gate.restore(gate.state | {"counts": counts})


def test_copies_are_independent() -> None:
    gate = ParityGate(2, 2, tolerance=0.5, cold_start=2)
    copy = gate.copy()
    copy.offer(0, 1)
    counts = gate.counts
    counts += 7
    assert gate.counts.sum() == 0
    assert copy.counts.sum() == 1
