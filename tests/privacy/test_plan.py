"""Tests of valid plans, and that nothing is released outside of them."""

from __future__ import annotations

import dataclasses
import math

import pytest

from skfairdp.exceptions import PlanError
from skfairdp.privacy import Block, CountRelease, LaplaceSum, Plan, Segment
from skfairdp.privacy.meter import Meter
from skfairdp.privacy.sizes import Sizes

BLOCK = Block(name="gradient", max_norm=1.0, weights=(0.1, 0.2), noise_std=0.3)
STEP = Segment(steps=2, rates=(0.5, 1.0), expected_sizes=(5.0, 8.0), blocks=(BLOCK,))
WARM_UP = dataclasses.replace(STEP, blocks=())
TABLE = CountRelease(name="table", epsilon=0.5, releases=2)
SUM = LaplaceSum(name="sum", max_norm=1.0, weights=(1.0, 1.0), scale=2.0)
PLAN = Plan(
    cells=("a", "b"),
    segments=(STEP, WARM_UP),
    counts=(TABLE,),
    sums=(SUM,),
    adjacency="add-remove",
    delta=1e-5,
)

WRONG = [
    (BLOCK, "max_norm", 0.0),
    (BLOCK, "max_norm", math.inf),
    (BLOCK, "weights", ()),
    (BLOCK, "weights", [0.1, 0.2]),
    (BLOCK, "weights", (0.1, -0.2)),
    (BLOCK, "noise_std", math.nan),
    (BLOCK, "noise_std", -1.0),
    (BLOCK, "charged_multipliers", (1.0,)),
    (BLOCK, "charged_multipliers", (3.0, 1.6)),
    (STEP, "steps", 1.5),
    (STEP, "steps", -1),
    (STEP, "rates", (0.5, 0.0)),
    (STEP, "rates", (0.5, 1.1)),
    (STEP, "rates", (0.5,)),
    (STEP, "expected_sizes", (5.0, 8.0, 1.0)),
    (STEP, "blocks", BLOCK),
    (STEP, "n_heads", 0),
    (STEP, "failure", 1.0),
    (TABLE, "epsilon", 0.0),
    (TABLE, "releases", True),
    (SUM, "max_norm", -1.0),
    (SUM, "weights", (math.inf, 1.0)),
    (SUM, "scale", math.inf),
    (PLAN, "cells", ("a",)),
    (PLAN, "cells", ("a", "a")),
    (PLAN, "cells", ()),
    (PLAN, "segments", (BLOCK,)),
    (PLAN, "counts", TABLE),
    (PLAN, "sums", (TABLE,)),
    (PLAN, "sums", (dataclasses.replace(SUM, weights=(1.0,)),)),
    (PLAN, "adjacency", "add"),
    (PLAN, "delta", 1.0),
    (PLAN, "prior_epsilon", math.inf),
]


@pytest.mark.parametrize(("part", "name", "value"), WRONG, ids=str)
def test_a_plan_that_means_nothing_cannot_be_made(part, name, value):
    with pytest.raises(ValueError):
        dataclasses.replace(part, **{name: value})


@pytest.mark.parametrize("kind", [Block, Segment, CountRelease, LaplaceSum, Plan])
def test_no_argument_goes_by_its_place(kind):
    values = [getattr(part, f.name) for part in (BLOCK, STEP, TABLE, SUM, PLAN)
              if isinstance(part, kind) for f in dataclasses.fields(part)]  # fmt: skip
    with pytest.raises(TypeError, match="positional"):
        kind(*values)


def test_charged_multipliers_may_be_those_of_the_sum_and_smaller():
    multipliers = tuple(BLOCK.multiplier(cell) for cell in (0, 1))
    dataclasses.replace(BLOCK, charged_multipliers=multipliers)
    dataclasses.replace(BLOCK, charged_multipliers=(0.0, 0.1))


def test_sizes_write_their_own_cells_relation_and_price():
    sizes = Sizes(("a", "b"), (10, 8), "add-remove", prior_epsilon=0.25)
    plan = sizes.plan(STEP, counts=(TABLE,), sums=(SUM,), delta=1e-5, exact_noise=True)
    assert (plan.cells, plan.adjacency, plan.prior_epsilon) == (("a", "b"), "add-remove", 0.25)
    assert (plan.segments, plan.counts, plan.sums) == ((STEP,), (TABLE,), (SUM,))
    sizes.check(plan, delta=1e-5, exact_noise=True)
    for name, value in {
        "cells": ("b", "a"),
        "adjacency": "zero-out",
        "prior_epsilon": 0.0,
        "delta": 1e-6,
        "exact_noise": False,
    }.items():
        with pytest.raises(PlanError, match=name):
            sizes.check(dataclasses.replace(plan, **{name: value}), delta=1e-5, exact_noise=True)


def drained(plan: Plan) -> Meter:
    meter = Meter(plan)
    for release in (STEP, TABLE, STEP, SUM, TABLE):
        meter.draw(release)
    return meter


def test_what_is_planned_can_be_drawn_and_no_more():
    meter = drained(PLAN)
    meter.finish()
    for release, words in (
        (STEP, "2 releases of 'gradient', of which 0 are left"),
        (TABLE, "2 releases of 'table', of which 0 are left"),
        (SUM, "1 release of 'sum', of which 0 are left"),
    ):
        with pytest.raises(PlanError, match=words):
            meter.draw(release)


@pytest.mark.parametrize(
    "foreign",
    [
        dataclasses.replace(STEP, blocks=(dataclasses.replace(BLOCK, noise_std=0.2),)),
        dataclasses.replace(STEP, steps=3),
        dataclasses.replace(TABLE, epsilon=0.6),
        dataclasses.replace(SUM, scale=1.0),
    ],
    ids=lambda release: type(release).__name__,
)
def test_what_is_not_planned_cannot_be_drawn(foreign):
    with pytest.raises(PlanError, match="does not hold"):
        Meter(PLAN).draw(foreign)


@pytest.mark.parametrize("drawn", ["table", 0, [TABLE], TABLE.epsilon])
def test_what_is_no_part_of_a_plan_is_refused_with_what_to_pass(drawn):
    with pytest.raises(PlanError, match=rf"got {type(drawn).__name__}\. Pass a .*run.plan.counts"):
        Meter(PLAN).draw(drawn)


def test_a_step_that_releases_nothing_is_not_drawn():
    with pytest.raises(PlanError, match="0 are left"):
        Meter(PLAN).draw(WARM_UP)


def test_equal_releases_add_up():
    meter = Meter(dataclasses.replace(PLAN, segments=(STEP, STEP), counts=(), sums=()))
    for _ in range(4):
        meter.draw(STEP)
    meter.finish()


def test_what_is_left_is_an_error_unless_a_released_value_ended_it():
    meter = Meter(PLAN)
    meter.draw(STEP)
    with pytest.raises(PlanError, match="1 of 'gradient', 2 of 'table', 1 of 'sum'"):
        meter.finish()
    meter.stop()
    meter.finish()
    meter.draw(STEP)
    with pytest.raises(PlanError):
        meter.draw(STEP)
