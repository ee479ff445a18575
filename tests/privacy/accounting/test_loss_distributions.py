"""Losses of one release: never below the exact masses, hardly above."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from skfairdp.privacy.accounting import loss_distributions as module
from skfairdp.privacy.accounting.loss_distributions import Losses, from_curve, gaussian, two_points

CASES = [
    (0.01, 1.1, 1e-4),
    (0.3, 10.0, 1e-4),
    (0.01, 686.0, 1.6e-6),
    (1e-3, 0.5, 1e-4),
    (1.0 - 1e-12, 50.0, 1e-4),
    (1.0, 4.0, 1e-4),
    (0.1, 0.05, 0.5),
]


def exact_delta(epsilon, rate, sigma):
    """Hockey-stick divergence of the record's side against the other, in 60 digits."""
    epsilon, rate, sigma = mp.mpf(epsilon), mp.mpf(rate), mp.mpf(sigma)
    ratio = (mp.e**epsilon - (1 - rate)) / rate
    if ratio <= 0:
        return 1 - mp.e**epsilon
    x = sigma**2 * mp.log(ratio) + mp.mpf(1) / 2
    alone, mixed = (mp.erfc((x - mean) / (sigma * mp.sqrt(2))) / 2 for mean in (0, 1))
    return rate * mixed - (mp.e**epsilon - 1 + rate) * alone


def exact_mass(k, interval, rate, sigma):
    """What connecting the dots puts on one grid point."""
    below, at, above = (exact_delta((k + j) * mp.mpf(interval), rate, sigma) for j in (-1, 0, 1))
    growth = mp.e ** mp.mpf(interval)
    return ((above - at) - growth * (at - below)) / (growth - 1)


def looked_at(found: Losses, seed: int, share: float):
    """Positions all over, the end points left out: they stand for what is beyond."""
    rng = np.random.default_rng(seed)
    inside = np.flatnonzero(found.masses[1:-1] > share * found.masses.max()) + 1
    return rng.choice(inside, size=min(25, len(inside)), replace=False)


def worst_shortfall(rate: float, sigma: float, interval: float, way: int) -> float:
    with mp.workdps(60):
        found = gaussian(rate, sigma, interval, 1e-20)[way]
        worst = -math.inf
        for i in looked_at(found, 0, 1e-12):
            k = found.lower + int(i)
            exact = exact_mass(k if way == 0 else -k, interval, rate, sigma)
            if way == 1:  # the same masses under the other data set, at minus the loss
                exact *= mp.e ** (mp.mpf(interval) * k)
            worst = max(worst, float((exact - mp.mpf(float(found.masses[i]))) / exact))
            assert found.masses[i] <= exact * (1 + mp.mpf(1e-4)) + mp.mpf(1e-12) * interval
        return worst


@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_masses_are_at_least_the_exact_ones_and_hardly_more(case, way):
    assert worst_shortfall(*case, way) <= 0.0


def test_without_the_margin_some_masses_are_too_small(monkeypatch):
    monkeypatch.setattr(module, "ELEMENTARY", 0.0)
    assert max(worst_shortfall(*case, 0) for case in CASES[:4]) > 0.0


@pytest.mark.parametrize("case", CASES[:-1])
def test_both_data_sets_keep_their_probability(case):
    rate, sigma, interval = case
    for found in gaussian(rate, sigma, interval, 1e-20):
        loss = interval * (found.lower + np.arange(len(found.masses)))
        for total in (found.masses.sum(), (found.masses * np.exp(-loss)).sum()):
            assert 1.0 - 1e-12 <= total <= 1.0 + 1e-6
        assert 1e-20 <= found.infinity <= 1.00001e-20


@pytest.mark.parametrize("size", [1e-3, 0.7, 3.0, 900.0])
def test_two_points_keep_both_masses(size):
    interval = max(1e-4, size / 60_000)
    found = two_points(size, interval)
    loss = interval * (found.lower + np.arange(len(found.masses)))
    held = found.masses > 1e-9
    assert np.abs(np.abs(loss[held]) - size).max() <= interval
    for sign in (1, -1):
        side = np.sign(loss) == sign
        exact = 1.0 / (1.0 + math.exp(-sign * size)) if sign * size > -700 else 0.0
        assert found.masses[side].sum() == pytest.approx(exact, rel=1e-9, abs=1e-12)
        assert found.masses[side].sum() >= exact
        if size > 700.0:
            continue
        other = (found.masses[side] * np.exp(-loss[side])).sum()
        assert other == pytest.approx(1.0 / (1.0 + math.exp(sign * size)), rel=1e-6)


def test_a_curve_is_dominated_at_every_grid_point():
    """Laplace noise: delta(epsilon) = 1 - exp((epsilon - 1 / b) / 2) up to 1 / b."""
    interval, size = 1e-3, 0.8

    def curve(epsilon):
        return -np.expm1(np.minimum(epsilon - size, 0.0) / 2.0)

    found = from_curve(curve, size, interval, 16.0)
    loss = interval * (found.lower + np.arange(len(found.masses)))
    for epsilon in (-0.5, -0.1, 0.0, 0.2, 0.5, 0.79):
        spent = found.infinity + (found.masses * np.maximum(-np.expm1(epsilon - loss), 0.0)).sum()
        # The curve of a release that costs the same in both directions, at minus epsilon.
        mirrored = -math.expm1(epsilon) + math.exp(epsilon) * float(curve(-epsilon))
        exact = float(curve(epsilon)) if epsilon >= 0.0 else mirrored
        assert exact - 1e-15 <= spent <= exact + 1e-6
