"""Counts of a table: planned, exact in law, and silent about a text of one row."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binomtest

from skfairdp.engine.table_release import Cells, TableRelease, threshold
from skfairdp.exceptions import PlanError
from skfairdp.privacy.accounting.plan_cost import epsilon
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, Plan, Segment
from tests.audit.fixed_number import epsilon_shown


def segment(std: float = 3.0, failure: float = 0.0, blocks: int = 1) -> Segment:
    made = (Block(name=f"b{i}", max_norm=1.0, weights=(1.0,), noise_std=std) for i in range(blocks))
    return Segment(
        steps=1, rates=(1.0,), expected_sizes=(0.0,), blocks=tuple(made), failure=failure
    )


def plan_of(*segments: Segment, delta: float = 1e-6) -> Plan:
    return Plan(
        cells=("all",), segments=segments, adjacency="add-remove", delta=delta, exact_noise=True
    )


def texts(*values: str) -> Cells:
    distinct = tuple(dict.fromkeys(values))
    codes = np.array([distinct.index(value) for value in values], dtype=np.int64)
    return Cells(np.full(len(values), np.nan), codes, distinct)


def numbers(*values: float) -> Cells:
    return Cells(np.array(values), np.full(len(values), -1))


def shown(column: Cells, failure: float, runs: int) -> int:
    """In how many releases any text is shown."""
    step, noise = segment(failure=failure), NoiseSource()
    found = 0
    for _ in range(runs):
        found += bool(TableRelease([column].__getitem__, plan_of(step), noise).frequent(step, 0))
    return found


def test_a_text_of_one_row_is_shown_as_often_as_is_charged() -> None:
    failure, runs = 0.05, 4000
    found = shown(texts("rare"), failure, runs)
    assert binomtest(found, runs, failure, alternative="greater").pvalue > 1e-6
    assert binomtest(found, runs, 0.8 * failure, alternative="less").pvalue > 1e-6  # no idle noise


def test_a_threshold_that_forgets_the_row_itself_is_caught(monkeypatch) -> None:
    """The broken twin: as if the count without the row, 0, had to pass."""
    module = "skfairdp.engine.table_release.threshold"
    monkeypatch.setattr(module, lambda std, failure: threshold(std, failure) - 1.0)
    found = shown(texts("rare"), 0.05, 4000)
    assert binomtest(found, 4000, 0.05, alternative="greater").pvalue < 1e-6


def exact_delta(eps: float, sigma: float, failure: float) -> float:
    """Hockey-stick divergence of a record that is one more number, and opens a category.

    With it the category is shown with probability `failure`, which never happens without it.
    """
    mu = 1.0 / sigma
    gaussian = ndtr(-eps / mu + mu / 2) - math.exp(eps) * ndtr(-eps / mu - mu / 2)
    # Conditional on silence the law is smaller by (1 - failure): epsilon moves by its logarithm.
    moved = eps - math.log1p(-failure)
    silent = ndtr(-moved / mu + mu / 2) - math.exp(moved) * ndtr(-moved / mu - mu / 2)
    assert silent <= gaussian
    return failure + (1.0 - failure) * float(silent)


@pytest.mark.parametrize("sigma", [2.0, 10.0])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_what_is_charged_covers_a_record_that_opens_a_category(sigma, share) -> None:
    delta = 1e-5
    text, number = segment(sigma, failure=share * delta), segment(sigma)
    charged = epsilon(plan_of(text, number, delta=delta))
    assert exact_delta(charged, sigma, share * delta) <= delta


def test_a_plan_without_failure_is_caught() -> None:
    """The broken twin: delta for the noise alone. The category costs more than its noise saves."""
    delta = 1e-5
    charged = epsilon(plan_of(segment(1e4), segment(2.0), delta=delta))
    assert exact_delta(charged, 2.0, 0.5 * delta) > delta


@pytest.mark.parametrize(("divisor", "caught"), [(1.0, False), (4.0, True)])
def test_an_audit_of_one_count(monkeypatch, divisor: float, caught: bool) -> None:
    """One record out of the count that it alone is in; noise divided by four is caught."""
    step = segment(2.0)
    drawn = NoiseSource.on_grid
    monkeypatch.setattr(
        NoiseSource, "on_grid", lambda self, sums, std: drawn(self, sums, std / divisor)
    )
    noise, runs = NoiseSource(), 3000
    where = lambda cells: np.zeros(len(cells.numbers), dtype=np.int64)  # noqa: E731
    guesses = []
    for column in (numbers(1.0), numbers()):
        released = [
            TableRelease([column].__getitem__, plan_of(step), noise).histograms(step, 0, where, 1)[
                0
            ][0]
            for _ in range(runs)
        ]
        guesses.append(int(np.sum(np.array(released) >= 1.5)))
    bound = epsilon_shown(guesses[0], runs, guesses[1], runs, delta=1e-3)
    claimed = epsilon(plan_of(step), 1e-3)
    assert (bound > claimed) == caught


def test_texts_come_sorted_and_all_rows_count() -> None:
    column = texts(*["b"] * 500, *["a"] * 400, "c")
    step = segment(2.0, failure=1e-9)
    assert TableRelease([column].__getitem__, plan_of(step), NoiseSource()).frequent(step, 0) == [
        "a",
        "b",
    ]


def test_a_later_histogram_is_asked_with_what_the_first_one_said() -> None:
    step = segment(0.5, blocks=2)
    seen = []

    def all_in_one(cells: Cells) -> np.ndarray:
        return np.zeros(len(cells.numbers), dtype=np.int64)

    def then(counts: np.ndarray) -> tuple:
        seen.append(counts)
        return (lambda cells: (cells.numbers > 1.0).astype(np.int64)), 2

    release = TableRelease([numbers(0.0, 1.0, 2.0)].__getitem__, plan_of(step), NoiseSource())
    first, second = release.histograms(step, 0, all_in_one, 1, then)
    assert seen[0] is first
    assert abs(first[0] - 3) < 6
    assert np.all(np.abs(second - [2, 1]) < 6)
    release.meter.finish()


@pytest.mark.parametrize(
    "plan",
    [
        replace(plan_of(segment()), exact_noise=False),
        plan_of(replace(segment(), rates=(0.5,))),
    ],
)
def test_other_plans_are_refused(plan: Plan) -> None:
    with pytest.raises(PlanError, match="over all rows, with exact noise"):
        TableRelease([numbers(1.0)].__getitem__, plan, NoiseSource())


def test_nothing_is_released_that_is_not_planned() -> None:
    step, other = segment(failure=1e-7), segment(5.0, failure=1e-7)
    release = TableRelease([texts("a")].__getitem__, plan_of(step), NoiseSource())
    with pytest.raises(PlanError, match="was not charged"):
        release.frequent(other, 0)
    release.frequent(step, 0)
    with pytest.raises(PlanError, match="0 are left"):
        release.frequent(step, 0)
    bare = segment()
    with pytest.raises(PlanError, match="failure probability"):
        TableRelease([texts("a")].__getitem__, plan_of(bare), NoiseSource()).frequent(bare, 0)
    heavy = replace(step, blocks=(replace(step.blocks[0], max_norm=0.5),))
    with pytest.raises(PlanError, match="a norm of 1 and a weight of 1"):
        TableRelease([texts("a")].__getitem__, plan_of(heavy), NoiseSource()).frequent(heavy, 0)
