"""A path under equal opportunity starts where a curve that is fitted to noisy gaps is zero."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import binom

from skfairdp.engine.release import Rows
from skfairdp.inprocessing.fair_path import tables as tables_module
from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.fair_path.fitted_gaps import covariances_of, falling, fitted_gaps
from skfairdp.inprocessing.fair_path.path import COARSE, MULTIPLIERS, start_of
from skfairdp.inprocessing.fair_path.tables import Tables, plan_tables
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums
from skfairdp.privacy.sizes import Sizes
from tests.inprocessing.fair_path.test_path import coarse_path, effects_of


def best_of_all_blocks(values: np.ndarray, covariance: np.ndarray, places: np.ndarray):
    """The same by every choice of the steps at which a curve does not fall."""
    n_points = int(places.max()) + 1
    hats = np.array([np.interp(places, np.arange(n_points), hat) for hat in np.eye(n_points)]).T
    precision = np.linalg.inv(covariance)
    least, best = np.inf, None
    for falls in itertools.product([False, True], repeat=n_points - 1):
        levels = np.concatenate([[0], np.cumsum(falls)])
        design = hats @ np.eye(levels[-1] + 1)[levels]
        of_levels = np.linalg.solve(design.T @ precision @ design, design.T @ precision @ values)
        rest = values - design @ of_levels
        if (np.diff(of_levels) <= 0.0).all() and rest @ precision @ rest < least:
            least, best = rest @ precision @ rest, of_levels[levels]
    return best


@pytest.mark.parametrize("looks", [(), (2.4,), (0.0, 3.5, 3.6)])
@pytest.mark.parametrize("seed", range(3))
def test_the_fitted_curve_is_the_best_of_those_that_never_rise(seed: int, looks: tuple) -> None:
    rng = np.random.default_rng(seed)
    places = np.append(np.arange(7.0), looks)
    factor = np.tril(rng.uniform(0.2, 1.0, (len(places), len(places))))
    values = -0.3 * places + factor @ rng.normal(size=len(places))
    covariance = factor @ factor.T
    fitted = falling(values, covariance, places)
    assert fitted == pytest.approx(best_of_all_blocks(values, covariance, places), abs=1e-7)
    assert (np.diff(fitted) <= 0.0).all()


def test_the_fit_knows_the_covariance_of_its_noise() -> None:
    path, _ = coarse_path("equal_opportunity", 2, 5.0, n_classes=2)
    sums = PrefixSums(path.start, 12.0)
    factor = sums.decoded(np.eye(path.start))
    effects = effects_of(path, 5.0, sums)
    for pair, found in enumerate(covariances_of(path, factor.T @ factor)):
        assert found == pytest.approx(effects[:, pair].T @ effects[:, pair], rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_curve_that_falls_is_kept_and_one_that_rises_becomes_flat(sign: float) -> None:
    """By the direction the second group pays, or the first. A flat curve starts at 0."""
    path, _ = coarse_path("equal_opportunity", 2, 5.0, n_classes=2)
    path = replace(path, direction=sign * path.rates.direction(np.ones((2, 2))))
    falls = np.linspace(0.2, -0.1, len(COARSE)) * sign
    n, side = np.array([6000.0, 1000.0]), path.start
    # Zero is two thirds of the way, a third from the middle to t = 1.
    for gaps, start in ((falls, 31.0 / 65.0), (falls[::-1], 0.0)):
        selected = n[:, None] * (0.5 + np.array([[-0.5], [0.5]]) * gaps)
        decided = np.stack([n - selected[:, side], selected[:, side]], axis=1)
        changed = selected - selected[:, [side]]
        of_gaps = replace(
            path,
            decided=np.stack([decided, decided], axis=1),
            changed=np.stack([changed[:, :side][:, ::-1], changed[:, side + 1 :]])[:, None],
        )
        assert of_gaps.differences[0][0] == pytest.approx(gaps)
        fitted = fitted_gaps(of_gaps, covariances_of(of_gaps, np.eye(side)))
        if start:
            assert fitted[0] == pytest.approx(gaps)
        else:
            assert np.ptp(fitted) == 0.0
        found = start_of(of_gaps, (fitted, np.zeros_like(fitted)))
        assert found == pytest.approx(start, abs=0.005 if start else 0.0)


class MadeUp:
    """Noisy tables of positives whose gap along the path is like that of Adult.

    `n_small`: number of them in the small group, which is selected less the larger m is.
    """

    GAPS = (0.82, 0.67, 0.6, 0.54, 0.28, 0.19, 0.155, 0.126, 0.11, 0.095, 0.074, 0.04, 0.0, -0.065,
            -0.18, -0.7)  # fmt: skip
    # Of the gap each group has a part: rates of the large one rise along the path.
    PARTS = -0.45, 0.55

    def __init__(self, n_small: int, rng: np.random.Generator) -> None:
        self.rng, self.rates = rng, Rates.of("equal_opportunity")
        n = np.array([6700, n_small])
        self.direction = self.rates.direction(np.outer(n, [1.0, 1.0]))
        rows = []  # gain, cost, group and share of its records
        for group, part in enumerate(self.PARTS):
            rates = 0.5 + part * np.array([self.gap(m) for m in MULTIPLIERS])
            rows += [(1.0, 0.0, group, rates.min()), (-1.0, 0.0, group, 1.0 - rates.max())]
            for m, change in zip(MULTIPLIERS[1:], np.abs(np.diff(rates)), strict=True):
                cost = float(np.sign(part))
                rows.append((cost * (m - 1e-9), cost, group, change))
        gains, costs, groups, shares = np.array(rows).T
        self.groups, self.records = groups.astype(int), shares * n[groups.astype(int)]
        # `lines` multiplies by the direction.
        of_second = costs / self.direction[1, 1]
        nothing = np.zeros_like(gains)
        self.outputs = np.stack([gains, nothing, nothing, nothing, of_second], axis=1)
        targets = torch.ones(len(gains), dtype=torch.long), torch.from_numpy(self.groups)
        self.rows = Rows(torch.zeros(len(gains), 1), targets, self.groups)
        sizes = Sizes(("all",), (30_000,), "add-remove")
        plan = sizes.plan(*plan_tables(sizes, 9.55, self.rates, ascent=False), delta=1e-12)
        self.meter = SimpleNamespace(plan=plan)

    def gap(self, multiplier: float) -> float:
        t = multiplier / (1.0 + abs(multiplier))
        return float(np.interp(t, np.linspace(-0.97, 0.906, len(self.GAPS)), self.GAPS))

    def prefix_sums(self, segment, assign, shape, n_entries=1):
        entries, signs = assign(self.rows)
        table, sums = np.zeros(math.prod(shape)), PrefixSums(shape[-1], segment.blocks[0].noise_std)
        kept = entries >= 0
        np.add.at(table, entries[kept], (self.records * signs.T).T[kept])
        noise = sums.decoded(self.rng.normal(size=shape))
        return table.reshape(shape).cumsum(axis=-1) + noise, sums.stds

    def start(self) -> float:
        """Multiplier at which a path starts, with other noise each time."""
        tables = Tables(self, None, self.rates, "equal_opportunity", 2)
        tables._known = self.outputs
        return tables.start(self.direction, tables.first())


@pytest.mark.slow
@pytest.mark.parametrize("fitted", [True, False])
def test_a_start_under_opportunity_does_not_follow_noise(fitted: bool, monkeypatch) -> None:
    """Tables like those of Adult at epsilon 1, with 1,200 positives in the small group.

    More than half of the gap is left in about 1 of 100 draws; in 19 of 100 where the start is the
    smallest gap of its own table, the broken twin. Fails with a chance of 1e-6 where these are .03
    and .2, and passes with the twin by a chance of 1e-3.
    """
    if not fitted:
        monkeypatch.setattr(tables_module, "_WITH_LOOKS", tables_module._SHARES)
    made_up, n = MadeUp(1200, np.random.default_rng(0)), 200
    assert 0.1 < made_up.gap(0.0) < 0.12
    bad = sum(abs(made_up.gap(made_up.start())) > 0.06 for _ in range(n))
    assert (bad <= binom.ppf(1.0 - 1e-6, n, 0.03)) == fitted
    assert (bad >= binom.ppf(1e-6, n, 0.2)) != fitted
