"""Steps of the additive model, and what it releases of its levels."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from skfairdp import DPAdditiveClassifier
from skfairdp.additive import descent
from skfairdp.additive.descent import AveragedNewton, Slopes, clipped_logistic
from skfairdp.additive.design import Design
from skfairdp.engine.modules import SomeInputs
from skfairdp.engine.release import NoisyRelease
from skfairdp.preprocessing.levels import Categories, Intervals

LEVELS = (Intervals(tuple(range(15))), Categories(("a", "b")), Intervals((0.0,)))
DESIGN = Design(LEVELS)


def rows(n: int, seed: int = 0) -> np.ndarray:
    """Inputs of rows whose columns are independent."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            place: pd.Categorical.from_codes(rng.integers(-1, level.count, n), dtype=level.dtype())
            for place, level in enumerate(LEVELS)
        }
    )
    return DESIGN.rows(table).astype(float)


def newton(X: np.ndarray, noise_variance: float = 0.0, bend: float = 0.1) -> AveragedNewton:
    return AveragedNewton(
        DESIGN,
        X[:, DESIGN.finest].sum(axis=0) / DESIGN.value,
        n_rows=len(X),
        noise_variance=noise_variance,
        slopes=Slopes(lambda mean, variance: (bend, 0.01), bend),
        prior=1.0,
    )


def test_a_step_solves_the_equations_of_all_columns_together() -> None:
    X = rows(4000)
    model = newton(X)
    released = np.random.default_rng(1).normal(size=DESIGN.width + 1)
    moved = model.move(released / len(X))
    inputs = np.column_stack([X, np.ones(len(X))])
    means, dense = inputs.mean(axis=0), np.zeros((DESIGN.width + 1,) * 2)
    for where, _ in model._columns:  # what columns would be if they were independent
        own = inputs[:, where] - means[where]
        dense[where, where] = own.T @ own
    dense = 0.1 * (dense + len(X) * np.outer(means, means)) + np.diag(model._ridge)
    assert np.allclose(moved, np.linalg.solve(dense, released), rtol=1e-8, atol=1e-12)


def test_without_noise_it_reaches_the_minimum_that_its_ridge_has() -> None:
    X = rows(3000)
    inputs = np.column_stack([X, np.ones(len(X))])
    target = np.where(X[:, 0] > 0, 1.0, -1.0) + X[:, 3] / DESIGN.value
    model = newton(X, bend=1.0)
    for _ in range(200):
        gradient = inputs.T @ (inputs @ model.weights - target)
        model.move(gradient / len(X))
    slope = inputs.T @ (inputs @ model.weights - target) + model._ridge * model.weights
    assert np.abs(slope).max() < 1e-3 * np.abs(inputs.T @ target).max()


def test_more_noise_shrinks_more_and_a_block_with_signal_less_than_one_without() -> None:
    X = rows(6000)
    inputs = np.column_stack([X, np.ones(len(X))])
    target, rng = 2.0 * np.where(X[:, DESIGN.finest[17]] > 0, 1.0, -1.0), np.random.default_rng(2)
    ridges = []
    for std in (1.0, 100.0):
        model = newton(X, noise_variance=std**2, bend=1.0)
        for _ in range(30):
            gradient = inputs.T @ (inputs @ model.weights - target)
            gradient += rng.normal(0.0, std, len(gradient))
            model.move(gradient / len(X))
        ridges.append(model._ridge[:-1])
    assert np.median(ridges[1]) > np.median(ridges[0])
    signal, none = (DESIGN.block_of_inputs == block for block in (2, 0))
    assert ridges[0][signal].max() < ridges[0][none].min()


@pytest.mark.parametrize("limit", [0.25, 0.6, 1.0])
def test_slopes_are_those_of_clipped_losses(limit: float) -> None:
    """Monte Carlo of 10^6 draws; its error is below 1e-3 but with a chance of 1e-6."""
    rng = np.random.default_rng(3)
    chance = expit(rng.normal(-1.5, 1.2, 1_000_000))
    up, down = np.minimum(chance, limit), np.minimum(1.0 - chance, limit)
    label = rng.random(len(chance)) < up / (up + down)
    slope = np.clip(chance - label, -limit, limit)
    bent = chance * (1.0 - chance) * (np.abs(chance - label) < limit)
    assert abs(slope.mean()) < 1e-3
    curvature, square = clipped_logistic(limit, -1.5, 1.44)
    # A kink costs the quadrature a few per cent of the curvature.
    assert curvature == pytest.approx(bent.mean(), rel=0.15)
    assert square == pytest.approx(np.square(slope).mean(), rel=0.05)


def counts_of(monkeypatch: pytest.MonkeyPatch, X: pd.DataFrame, **options: object) -> np.ndarray:
    """Released counts of levels, for rows of norm 1."""
    seen = []
    release = NoisyRelease.statistic

    def watched(self, *args):
        seen.append(release(self, *args))
        return seen[-1]

    with monkeypatch.context() as patch:
        patch.setattr(NoisyRelease, "statistic", watched)
        model = DPAdditiveClassifier((0, 1), max_epochs=1, dataset_size=400, progress=False)
        model.set_params(**options).fit(X, np.arange(len(X)) % 2)
    (found,) = seen
    return found.numpy()


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_record_moves_the_counts_of_levels_by_their_norm_at_most(monkeypatch, scale) -> None:
    """Without noise; entries of twice the size are clipped to the same norm."""
    forward = SomeInputs.forward
    monkeypatch.setattr(SomeInputs, "forward", lambda self, X: scale * forward(self, X))
    X = pd.DataFrame(np.random.default_rng(4).uniform(size=(400, 3)))
    with pytest.warns(Warning, match="nothing is protected"):
        all_rows, fewer = (counts_of(monkeypatch, X[:n], epsilon=math.inf) for n in (400, 399))
    moved = float(np.linalg.norm(all_rows - fewer))
    assert 1.0 - 1e-4 < moved <= 1.0


def test_a_norm_that_is_not_planned_would_be_seen(monkeypatch) -> None:
    """The broken twin of the test above: clipping at twice the norm that is charged."""
    limit = NoisyRelease._limit
    forward = SomeInputs.forward
    monkeypatch.setattr(NoisyRelease, "_limit", lambda *args: 2.0 * limit(*args))
    monkeypatch.setattr(SomeInputs, "forward", lambda self, X: 2.0 * forward(self, X))
    X = pd.DataFrame(np.random.default_rng(4).uniform(size=(400, 3)))
    with pytest.warns(Warning, match="nothing is protected"):
        all_rows, fewer = (counts_of(monkeypatch, X[:n], epsilon=math.inf) for n in (400, 399))
    assert np.linalg.norm(all_rows - fewer) > 1.9


@pytest.mark.parametrize("divided", [1.0, 4.0])
def test_counts_of_levels_have_the_noise_that_is_charged(monkeypatch, divided) -> None:
    """Of levels without rows; a quarter of the noise is seen. Fails by chance in 1e-6 runs."""
    if divided > 1.0:
        noisy = NoisyRelease._noisy
        monkeypatch.setattr(
            NoisyRelease, "_noisy", lambda self, total, std: noisy(self, total, std / divided)
        )
    X = pd.DataFrame(np.zeros((400, 3)))
    found = counts_of(monkeypatch, X, n_bins=256, epsilon=1.0)
    quote = DPAdditiveClassifier((0, 1), max_epochs=1, dataset_size=400).quote(n_rows=400)
    levels, _ = quote.plan.segments
    assert levels.blocks[0].max_norm == 1.0
    empty = np.abs(found) < 0.5 * np.abs(found).max()  # all 400 rows are in one level of each
    ratio = float(np.std(found[empty]) / levels.blocks[0].noise_std)
    charged = abs(ratio - 1.0) < 5.0 / math.sqrt(2 * len(found))
    assert charged == (divided == 1.0)


def test_the_plan_holds_the_counts_and_the_steps_and_no_more() -> None:
    plan = DPAdditiveClassifier((0, 1)).quote(n_rows=10_000).plan
    assert [segment.blocks[0].name for segment in plan.segments] == ["levels", "gradient"]
    levels, steps = plan.segments
    assert levels.rates == (1.0,)
    assert steps.steps == 60
    share = levels.multiplier(0) ** -2
    whole = share + steps.steps * (steps.rates[0] / steps.multiplier(0)) ** 2
    assert share / whole == pytest.approx(0.04, rel=1e-9)


def test_figures_of_the_rule_are_those_of_its_page() -> None:
    assert (descent._LATE, descent._BELIEF) == (2.0, 10.0)
