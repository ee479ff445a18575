"""Ways to a wrong epsilon that a few lines of a subclass took, and no longer take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from skfairdp import DPSGDClassifier, FairDPClassifier, PrivacyLedger
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.release import NoisyRelease, Rows, Statistic
from skfairdp.exceptions import PlanError
from skfairdp.inprocessing.gradient import Run
from skfairdp.inprocessing.grouped import GroupedClassifier
from skfairdp.privacy.mechanisms.prefix_sums import prefix_norm
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import GRID_FAILURE, Block, CountRelease, Plan, Segment
from skfairdp.privacy.sizes import Sizes, expected_batch_size, steps_for
from tests.inprocessing.rows import two_groups
from tests.privacy.plans import empty_plan

FAST = {"max_epochs": 2, "progress": False}


class TwoGradients(DPSGDClassifier):
    """Averages two noisy gradients a step, and plans one."""

    def _train(self, run: Run) -> None:
        def released_gradient(segment):
            return (run.release.gradient(segment) + run.release.gradient(segment).clone()) / 2

        run.descend(released_gradient=released_gradient)


class LessNoise(DPSGDClassifier):
    """Releases what is planned, with a tenth of its noise."""

    def _train(self, run: Run) -> None:
        def released_gradient(segment):
            (block,) = segment.blocks
            quiet = dataclasses.replace(block, noise_std=block.noise_std / 10)
            return run.release.gradient(dataclasses.replace(segment, blocks=(quiet,)))

        run.descend(released_gradient=released_gradient)


class FewerSteps(DPSGDClassifier):
    """Is charged for steps that it does not make."""

    def _train(self, run: Run) -> None:
        run.release.gradient(run.plan.segments[0])


class PublicRows(DPSGDClassifier):
    """Reads rows that a record's guarantee protects as if they were public."""

    def _train(self, run: Run) -> None:
        run.release.public_rows(run.release._clipper)


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        (TwoGradients, "holds 20 releases of 'gradient', of which 0 are left"),
        (LessNoise, "does not hold 'gradient'"),
        (FewerSteps, "19 of 'gradient'"),
        (PublicRows, "not public under adjacency='zero-out'"),
    ],
)
def test_a_mechanism_that_does_not_do_what_it_plans_gets_no_guarantee(mechanism, words, tmp_path):
    X, y, _ = two_groups()
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    model = mechanism(ledger=ledger, **FAST)
    with pytest.raises(PlanError, match=words):
        model.fit(X, y)
    assert not hasattr(model, "privacy_")
    assert len(ledger.entries()) == 1, "what was released before the error stays charged"


class Copied(GroupedClassifier):
    """`dpsgd.py` for grouped rows, as one would write it."""

    max_epochs: int = 2
    learning_rate_schedule: Any = None
    progress: bool | None = False

    def _step(self, sizes: Sizes, sigma: float) -> Segment:
        size = expected_batch_size(self.batch_size, sizes.total)
        n, rate, weight = len(sizes.cells), size / sizes.total, 1.0 / size
        block = Block(
            name="gradient", max_norm=1.0, weights=(weight,) * n, noise_std=sigma * weight
        )
        return Segment(
            steps=steps_for(self.max_epochs, sizes.total, size),
            rates=(rate,) * n,
            expected_sizes=tuple(rate * count for count in sizes.counts),
            blocks=(block,),
        )

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        step = self._step(sizes, noise_multiplier)
        return sizes.plan(step, delta=self.delta, exact_noise=self.exact_noise)

    def _train(self, run: Run) -> None:
        run.descend()


class ByPlace(Copied):
    """The price of the sizes comes last, and is forgotten."""

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        step = self._step(sizes, noise_multiplier)
        return Plan(sizes.cells, (step,), (), sizes.adjacency, float(self.delta))


class Forgetful(Copied):
    """Forgets one thing at a time."""

    def __init__(self, forgotten=None, **parameters):
        super().__init__(**parameters)
        self.forgotten = forgotten

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        plan = super()._plan(sizes, noise_multiplier)
        return dataclasses.replace(plan, **self.forgotten)


BOUGHT = {"group_sizes_epsilon": 0.3}


def test_a_plan_by_sizes_charges_what_the_sizes_cost():
    X, y, groups = two_groups()
    model = Copied(**BOUGHT).fit(X, y, sensitive_features=groups)
    assert model.plan_.prior_epsilon == 0.3
    assert model.privacy_.epsilon == 1.0


def test_a_plan_cannot_forget_what_stands_at_its_end():
    X, y, groups = two_groups()
    with pytest.raises(TypeError, match="positional"):
        ByPlace(**BOUGHT).fit(X, y, sensitive_features=groups)


@pytest.mark.parametrize(
    "forgotten",
    [
        {"prior_epsilon": 0.0},
        {"adjacency": "zero-out"},
        {"cells": ("b", "a")},
        {"delta": 1e-3},
        {"exact_noise": False},
    ],
    ids=lambda forgotten: next(iter(forgotten)),
)
def test_a_plan_for_other_data_is_refused_before_anything_is_charged(forgotten, tmp_path):
    X, y, groups = two_groups()
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    model = Forgetful(forgotten, ledger=ledger, group_sizes={"a": 300, "b": 100})
    model.group_sizes_epsilon = 0.3 if "prior_epsilon" in forgotten else None
    model.group_sizes = None if model.group_sizes_epsilon else model.group_sizes
    with pytest.raises(PlanError, match=next(iter(forgotten))):
        model.fit(X, y, sensitive_features=groups)
    # Sizes that were bought are charged before there is a plan.
    assert len(ledger.entries()) == int("prior_epsilon" in forgotten)


def test_every_way_out_draws_from_the_plan():
    module = nn.Linear(2, 1)
    flat = flatten(module)
    clipper = make_clipper(module, flat, objective_for(nn.BCEWithLogitsLoss()))
    rows = Rows(torch.zeros(4, 2), (torch.zeros(4),), np.zeros(4, dtype=np.int64))
    release = NoisyRelease(rows, empty_plan(), clipper, NoiseSource(0))
    block = Block(name="gradient", max_norm=1.0, weights=(1.0,), noise_std=1.0)
    one, two = (
        Segment(steps=1, rates=(1.0,), expected_sizes=(4.0,), blocks=(block,) * n) for n in (1, 2)
    )
    statistic = Statistic(1, lambda output, labels: output.reshape(-1, 1))
    ways: dict[str, Callable[[], object]] = {
        "gradient": lambda: release.gradient(one),
        "gradient_and_statistic": lambda: release.gradient_and_statistic(two, statistic),
        "statistic": lambda: release.statistic(one, statistic, module),
        "adaptive_gradient": lambda: release.adaptive_gradient(two, 1.0, lambda c: c[:, 0]),
        "heads": lambda: release.heads(one, slice(0, 1), radii=(1.0,), head_scale=1.0),
        "counts": lambda: release.counts(
            CountRelease(name="table", epsilon=1.0), lambda rows: rows.codes, 1
        ),
        "prefix_sums": lambda: release.prefix_sums(
            Segment(
                steps=1,
                rates=(1.0,),
                expected_sizes=(4.0,),
                blocks=(dataclasses.replace(block, max_norm=prefix_norm(1)),),
                failure=GRID_FAILURE,
            ),
            lambda rows: (rows.codes, np.ones(len(rows.codes), dtype=int)),
            (1,),
        ),
        "tables": lambda: release.tables(one, lambda rows: [rows.codes], [1]),
        "public_rows": lambda: release.public_rows(clipper),
    }
    shown = {n for n, v in vars(NoisyRelease).items() if callable(v) and not n.startswith("_")}
    # The one makes another release, of its own plan; the other returns nothing.
    assert set(ways) == shown - {"beside", "recode"}
    for way in ways.values():
        with pytest.raises(PlanError):
            way()


def planned_release(adjacency: str, *blocks: Block) -> tuple[NoisyRelease, Segment]:
    """Rows of two cells, and a plan of one step with these blocks."""
    module = nn.Linear(2, 1)
    flat = flatten(module)
    clipper = make_clipper(module, flat, objective_for(nn.BCEWithLogitsLoss()))
    rows = Rows(torch.ones(4, 2), (torch.zeros(4),), np.array([0, 0, 1, 1]))
    segment = Segment(steps=9, rates=(1.0, 1.0), expected_sizes=(2.0, 2.0), blocks=blocks)
    plan = Plan(cells=("a", "b"), segments=(segment,), adjacency=adjacency, delta=1e-6)
    return NoisyRelease(rows, plan, clipper, NoiseSource(0)), segment


def test_a_count_is_charged_for_a_whole_record():
    gradient = Block(name="gradient", max_norm=1.0, weights=(1.0, 1.0), noise_std=1e3)
    # Charged as if a record added a thousandth, and released with noise for that.
    small = Block(name="counts", max_norm=1e-3, weights=(1.0, 1.0), noise_std=1e-2)
    release, segment = planned_release("zero-out", small, gradient)
    with pytest.raises(PlanError, match="a norm of 1"):
        release.adaptive_gradient(segment, 1.0, lambda counts: np.ones(2))


def test_cells_that_a_record_may_change_between_have_a_noise_each():
    block = Block(name="gradient", max_norm=1.0, weights=(1.0, 1.0), noise_std=1.0)
    release, one = planned_release("change-attribute", block)
    with pytest.raises(PlanError, match="needs its own noise"):
        release.gradient(one)
    with pytest.raises(PlanError, match="needs its own noise"):
        release.heads(one, slice(0, 1), radii=(1.0, 1.0), head_scale=1.0)
    with pytest.raises(TypeError):
        release.gradient(one, cell_weights=np.array(1.0))
    assert release.gradient(one, cell_weights=np.array([1.0, -1.0])).shape == (3,)
    release, two = planned_release("change-attribute", block, block)
    with pytest.raises(PlanError, match="needs its own noise"):
        release.adaptive_gradient(two, 1.0, lambda counts: np.ones(2))


@pytest.mark.parametrize("check_every", [1, 2, 3, 5])
@pytest.mark.parametrize("max_epochs", [2, 5])
def test_tables_for_stopping_are_planned_as_they_are_bought(check_every, max_epochs):
    X, y, groups = two_groups()
    model = FairDPClassifier(
        max_epochs=max_epochs, check_every=check_every, stop_tolerance=0.99, check_epsilon=0.02,
        progress=False,
    ).fit(X, y, sensitive_features=groups)  # fmt: skip
    bought = len(model.released_gaps_)
    planned = sum(table.releases for table in model.plan_.counts)
    assert bought == planned == (max_epochs - 1) // check_every
