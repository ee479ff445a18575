"""A step under rate constraints against one of DP-SGD; a fair path against rate constraints."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from skfairdp import FairPathClassifier, RateConstrainedClassifier, default_net
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.modules import MLP
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flat_optimizer, flatten
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.exceptions import FairnessWarning
from skfairdp.inprocessing.rates.constraints import RateConstraints
from skfairdp.inprocessing.rates.objective import CostObjective
from skfairdp.inprocessing.rates.training import Lagrangian, ScaledAscent, TailAverage
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, Segment
from tests.benchmarks.adult import as_tensors
from tests.benchmarks.rounds import interleaved, report
from tests.benchmarks.steps import our_step
from tests.privacy.plans import empty_plan, unlimited

__all__ = ["benchmark_constrained", "benchmark_path"]


def constrained_step(
    X: torch.Tensor,
    y: torch.Tensor,
    groups: np.ndarray,
    batch: int,
    make: Callable[[], nn.Module],
    notion: str,
) -> Callable[[], None]:
    """All that happens between two steps of `RateConstrainedClassifier`."""
    module = make()
    flat = flatten(module)
    n_groups = int(groups.max()) + 1
    constraints = RateConstraints(notion, [0, 1], n_groups, 0.01)
    objective = CostObjective(objective_for(nn.BCEWithLogitsLoss()), constraints)
    cells = torch.from_numpy(groups * 2) + y.long()
    rows = Rows(X, (cells,), np.zeros(len(X), dtype=np.int64))
    clipper = make_clipper(module, flat, objective)
    release = unlimited(NoisyRelease(rows, empty_plan(), clipper, NoiseSource()))
    weight = (1.0 / batch,)
    blocks = (
        Block(name="gradient", max_norm=5.0, weights=weight, noise_std=5.0 / batch),
        Block(name="histogram", max_norm=1.0, weights=weight, noise_std=1.0 / batch),
    )
    segment = Segment(
        steps=1, rates=(batch / len(X),), expected_sizes=(float(batch),), blocks=blocks
    )
    dual = ScaledAscent(
        constraints.tolerances, rate=0.006, penalty=0.1, limit=1.0, factors=np.ones(10**6)
    )
    lagrangian = Lagrangian(constraints, dual, memory=0.9, noise_std=1.0 / batch)
    average = TailAverage(flat.vector, 7)
    steps = itertools.count()
    updates = flat_optimizer(torch.optim.Adam, (), {"lr": 0.01}, {}, flat)

    def step() -> None:
        gradient, histogram = release.gradient_and_statistic(segment, objective.statistic)
        lagrangian.observe(histogram.cpu().numpy())
        objective.set_coefficients(lagrangian.coefficients, flat.vector)
        updates.step(gradient)
        average.after_step(next(steps) % 10)  # the default averages over three in ten

    return step


def benchmark_constrained(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[bool]:
    """Steps under constraints against steps of DP-SGD, both with Adam."""
    features, target = as_tensors(X, y)
    rng = np.random.default_rng(0)
    held = []
    for hidden in ((64,), (64, 64)):

        def make(hidden: tuple[int, ...] = hidden) -> nn.Module:
            return MLP(X.shape[1], hidden_sizes=hidden)

        four = rng.integers(0, 4, len(X))
        times = interleaved(
            {
                "plain": our_step(
                    features, target, np.zeros(len(X), dtype=int), 1024, make, torch.optim.Adam
                ),
                "parity": constrained_step(
                    features, target, groups, 1024, make, "demographic_parity"
                ),
                "odds": constrained_step(features, target, four, 1024, make, "equalized_odds"),
            },
            rounds=41,
            repeats=10,
        )
        where = f"(B=1024, hidden {hidden})"
        for key, work in (("parity", "parity, 2 groups"), ("odds", "odds, 4 groups")):
            ratio = times[key] / times["plain"]
            held.append(report(f"rate-constrained step / DP-SGD step, {work} {where}", ratio, 1.25))
    return held


def benchmark_path(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[bool]:
    """One fit, ten tolerances, and certificates of twenty; both fits with linear nets."""

    def seconds(work: Callable[[], object]) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    linear = default_net().set_params(module__hidden_sizes=())
    rates = RateConstrainedClassifier(linear, random_state=0, progress=False)
    path = FairPathClassifier(random_state=0, progress=False)
    tolerances = np.linspace(0.01, 0.2, 20).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        of_rates = seconds(lambda: rates.fit(X, y, sensitive_features=groups))
        one = seconds(lambda: path.fit(X, y, sensitive_features=groups))
        more = seconds(lambda: [path.at(tolerance) for tolerance in tolerances[::2]])
        held = X[:10_000], y[:10_000]  # what they are does not change the time
        certified = sorted(
            seconds(
                lambda: path.certify_path(
                    *held,
                    sensitive_features=groups[:10_000],
                    tolerances=tolerances,
                    holdout="public",
                )
            )
            for _ in range(5)
        )[2]
    return [
        report("fit of a fair path / fit under rate constraints", one / of_rates, 1.5),
        report("ten tolerances / one fit of a path", (one + more) / one, 1.1),
        report("certify_path of 20 points, 10,000 rows: seconds", certified, 1.0),
    ]
