"""Verdicts of quotes: the formula, and fits on both sides of its limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from skfairdp import DPSGDClassifier, FairDPClassifier, PATEClassifier
from skfairdp.privacy import Block, CountRelease, LaplaceSum, Plan, Segment
from skfairdp.receipts.verdict import noise_ratios, verdict_on


def plan_of(steps: int, batch: float, noise: float, norm: float = 2.0) -> Plan:
    weight = 1.0 / batch
    std = noise * norm * weight
    block = Block(name="gradient", max_norm=norm, weights=(weight,), noise_std=std)
    step = Segment(steps=steps, rates=(0.5,), expected_sizes=(batch,), blocks=(block,))
    return Plan(cells=("all",), segments=(step,), adjacency="zero-out", delta=1e-6)


def test_the_ratio_is_that_of_simulated_sums() -> None:
    """Relative error of a chi mean over 400 draws in 12 dimensions: 6 sigma are below 0.07."""
    steps, batch, noise, n_features = 50, 10.0, 3.0, 11
    rng = np.random.default_rng(0)
    plan = plan_of(steps, batch, noise)
    (block,) = plan.segments[0].blocks
    walks = rng.normal(scale=block.noise_std, size=(400, steps, n_features + 1)).sum(axis=1)
    simulated = math.sqrt((walks**2).sum(axis=1).mean())
    signal = steps * batch * block.weights[0] * block.max_norm
    ((ratio),) = noise_ratios(plan, n_features=n_features).values()
    assert ratio == pytest.approx(simulated / signal, rel=0.07)
    (wrong,) = noise_ratios(plan_of(steps, batch, noise / 4), n_features=n_features).values()
    assert wrong != pytest.approx(simulated / signal, rel=0.07)


@pytest.mark.parametrize(
    ("noise", "level"),
    [(0.0, "no noise"), (1.0, "useful"), (10.0, "doubtful"), (70.0, "too small")],
)
def test_levels_follow_the_limits(noise: float, level: str) -> None:
    assert verdict_on(plan_of(25, 10.0, noise)).level == level


def test_the_smallest_group_decides() -> None:
    model = FairDPClassifier(epsilon=1.0)
    even = model.quote(groups={"a": 500, "b": 500}).verdict
    uneven = model.quote(groups={"a": 990, "b": 10}).verdict
    assert even.ratio < uneven.ratio
    assert "group 'b'" in uneven.text


def test_more_rows_and_a_larger_budget_never_look_worse() -> None:
    ratios = [DPSGDClassifier().quote(n_rows=n).verdict.ratio for n in (20, 200, 2000)]
    assert ratios == sorted(ratios, reverse=True)
    ratios = [DPSGDClassifier(epsilon=e).quote(n_rows=200).verdict.ratio for e in (0.5, 1.0, 4.0)]
    assert ratios == sorted(ratios, reverse=True)


def test_votes_are_compared_with_the_number_of_teachers() -> None:
    few = PATEClassifier(n_teachers=5, epsilon=1.0).quote(n_rows=1000, n_public=500)
    assert few.verdict.level == "too small"
    many = PATEClassifier(n_teachers=1000, epsilon=4.0).quote(n_rows=100_000, n_public=500)
    assert many.verdict.level != "too small"


def test_releases_whose_signal_nobody_knows_are_left_out() -> None:
    table = CountRelease(name="table", epsilon=0.1)
    counts = Plan(cells=("all",), segments=(), counts=(table,), adjacency="zero-out", delta=0.0)
    found = verdict_on(counts, crowd=10.0)
    assert (found.level, found.ratio) == ("useful", 0.0)
    assert "No release with noise" in found.text
    idle = replace(counts, segments=plan_of(1, 10.0, 5.0).segments[:1])
    steps = tuple(replace(segment, steps=0) for segment in idle.segments)
    assert verdict_on(replace(idle, segments=steps)).ratio == 0.0


def test_a_laplace_sum_is_compared_with_the_largest_sum_of_the_crowd() -> None:
    summed = LaplaceSum(name="moments", max_norm=2.0, weights=(0.5,), scale=3.0)
    plan = Plan(cells=("all",), segments=(), sums=(summed,), adjacency="zero-out", delta=0.0)
    assert noise_ratios(plan) == {}
    (ratio,) = noise_ratios(plan, crowd=60.0).values()
    assert ratio == pytest.approx(math.sqrt(2.0) * 3.0 / (60.0 * 0.5 * 2.0))


@pytest.mark.slow
def test_fits_on_both_sides_of_the_limit() -> None:
    """Where the verdict is "too small" models guess; where it is "useful" they learn.

    Seeded, so the figures are the same at every run.
    """
    means = {}
    for n in (12, 4000):
        model = DPSGDClassifier(epsilon=1.0, progress=False, reproducible_noise=True)
        model.set_params(net__module__hidden_sizes=())
        means[model.quote(n_rows=n, n_features=50).verdict.level] = np.mean(
            [_accuracy(model, n, seed) for seed in range(12)]
        )
    assert means["too small"] < 0.7, means
    assert means["useful"] > 0.8, means


def _accuracy(model: DPSGDClassifier, n: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    direction = np.ones(50) / math.sqrt(50)
    y = np.arange(n + 2000) % 2
    X = rng.normal(size=(n + 2000, 50)) + 4.0 * np.outer(y - 0.5, direction)
    model.set_params(random_state=seed).fit(X[:n], y[:n])
    return float(np.mean(model.predict(X[n:]) == y[n:]))
