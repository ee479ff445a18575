"""Tests of a claim about the answers that a parity gate let pass."""

from __future__ import annotations

import pytest

from skfairdp.fairness import FairnessGuarantee, ParityGate, answered_guarantee


def gate(counts: list[list[int]], **settings) -> ParityGate:
    settings = {"tolerance": 0.1, "cold_start": 10} | settings
    fresh = ParityGate(len(counts), len(counts[0]), **settings)
    return fresh.restore(fresh.state | {"counts": counts})


def claim(counts: list[list[int]], refused: int = 0, **settings) -> FairnessGuarantee:
    asked = [sum(row) + refused for row in counts]
    labels = range(len(counts[0]))
    return answered_guarantee(
        gate(counts, **settings), groups="abcde"[: len(counts)], classes=tuple(labels), asked=asked
    )


def test_bound_is_the_largest_difference_between_two_groups_on_the_table() -> None:
    found = claim([[5, 15], [10, 10], [30, 10]])
    assert found.bound == found.estimate == pytest.approx(0.5)  # .75 - .25, label 1, a against c
    assert (found.scope, found.confidence_level) == ("answered queries", None)


def test_worst_cell_coverage_and_ceiling_are_printed() -> None:
    texts = " ".join(claim([[10, 10], [12, 8]], refused=5).assumptions)
    assert "Worst cell of the table: Γ = 0.100, the share of label" in texts
    assert "Coverage: 40 of 50 queries were answered (0.800); by group a: 0.800, b: 0.800" in texts
    assert "no cell can exceed 0.100 whatever is asked next" in texts
    uneven = " ".join(claim([[5, 15], [15, 5]]).assumptions)
    assert "no cell can exceed 0.900" in uneven  # gamma .1 and twice .4 of excess


def test_no_promise_about_later_answers_where_there_is_none() -> None:
    young = " ".join(claim([[10, 10], [3, 2]]).assumptions)
    assert "cold start is not over" in young
    assert "Fewer than 10 answers: b" in young
    published = " ".join(claim([[10, 10], [12, 8]], rule="queried_cell").assumptions)
    assert "other cells may drift" in published
    for text in (young, published):
        assert "whatever is asked next" not in text


@pytest.mark.parametrize("counts", [[[0, 0], [0, 0]], [[3, 4], [0, 0]], [[3, 4]]])
def test_no_useful_bound_without_answers_of_two_groups(counts) -> None:
    assert not claim(counts).informative
    assert claim(counts).estimate is None


def test_arguments_that_do_not_fit_the_gate_are_refused() -> None:
    with pytest.raises(ValueError, match="must describe a gate of 2 groups and 2 classes"):
        answered_guarantee(gate([[2, 2], [2, 2]]), groups="ab", classes=(0, 1), asked=[4, 3])
    with pytest.raises(ValueError, match="must describe a gate"):
        answered_guarantee(gate([[2, 2], [2, 2]]), groups="abc", classes=(0, 1), asked=[4, 4])
