"""Tests of noisy moments: the effect of a record, and the noise."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from skfairdp.engine.moment_sums import MomentSums, l1_bounds, l2_bounds
from skfairdp.privacy import Block, LaplaceSum, NoiseSource, Segment
from tests.privacy.plans import empty_plan, unlimited

D = 7


def sums(rows, targets, codes=None):
    codes = np.zeros(len(rows), dtype=np.int64) if codes is None else codes
    rows = np.asarray(rows, dtype=float)
    door = MomentSums(
        rows, np.asarray(targets), codes, empty_plan(), NoiseSource(3), expected=len(rows)
    )
    return unlimited(door)


def step(*blocks):
    n = len(blocks[0].weights)
    return Segment(steps=1, rates=(1.0,) * n, expected_sizes=(1.0,) * n, blocks=blocks)


def exact(rows, targets, codes=None, weights=(1.0,), each_cell=False):
    blocks = [Block(name="", max_norm=norm, weights=weights, noise_std=0.0) for norm in l2_bounds()]
    return sums(rows, targets, codes).gaussian(step(*blocks), each_cell=each_cell)


@cache
def of_nothing(d):
    return exact(np.zeros((1, d)), [0.0])


def moved(z, t):
    """What one record adds: linear part, and quadratic part."""
    other = np.zeros((1, len(z)))
    alone = of_nothing(len(z))
    both = exact(np.vstack([other, z]), [0.0, t])
    return both.linear[0] - alone.linear[0], both.quadratic[0] - alone.quadratic[0]


def worst_rows(d):
    rng = np.random.default_rng(0)
    signs = np.sign(rng.normal(size=(20, d)))
    yield from signs / math.sqrt(d)
    yield from np.eye(d)
    yield from rng.normal(size=(200, d)) * rng.uniform(0.1, 50, size=(200, 1))
    for k in range(1, d):
        yield np.append(np.full(k, 1 / math.sqrt(k)), np.zeros(d - k))


@pytest.mark.parametrize("d", [2, 20, *(pytest.param(d, marks=pytest.mark.slow) for d in (1, 7))])
def test_no_record_moves_the_sums_by_more_than_the_bounds_and_some_reach_them(d):
    largest = np.zeros(4)
    for z in worst_rows(d):
        for t in (-0.5, 0.5, 9.0):  # a target outside its range is cut to it
            a, M = moved(z, t)
            upper = M[np.triu_indices(d)]
            found = np.linalg.norm(a), np.linalg.norm(M), np.abs(a).sum(), np.abs(upper).sum()
            largest = np.maximum(largest, found)
    bounds = np.array([*l2_bounds(), *l1_bounds(d)])
    assert np.all(largest <= bounds)
    # The rows with equal coordinates reach all four, up to the margin for rounding.
    assert np.all(largest >= bounds * (1 - 1e-7))


def test_long_rows_are_shortened_and_rows_that_are_not_finite_add_nothing():
    z = np.full(D, 1e200)
    a, M = moved(z, 0.5)
    assert np.linalg.norm(a) == pytest.approx(0.0, abs=0.5)
    assert np.isfinite(M).all()
    for broken in (np.nan, np.inf):
        z = np.full(D, 0.1)
        z[2] = broken
        a, M = moved(z, 0.5)
        assert not a.any()
        assert not M.any()


def test_the_released_sums_are_those_of_the_expanded_loss():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(30, D)) / 10
    y = rng.integers(2, size=30)
    codes = np.arange(30) % 3 - 1  # a third of the rows contribute to nothing
    weights = (1.0, 0.25)
    total = exact(Z, 0.5 - y, codes, weights)
    w = np.array([0.0, *weights])[codes + 1]
    np.testing.assert_allclose(total.linear[0], ((0.5 - y) * w) @ Z, atol=1e-8)
    np.testing.assert_allclose(total.quadratic[0], (Z * w[:, None]).T @ Z / 8, atol=1e-8)
    each = exact(Z, 0.5 - y, codes, (1.0, 1.0), each_cell=True)
    assert each.linear.shape == (2, D)
    np.testing.assert_allclose(weights @ each.linear, total.linear[0], atol=1e-8)
    # The expansion itself, at a small theta.
    theta = rng.normal(size=D) / 10
    z = Z @ theta
    loss = np.log1p(np.exp(z)) - y * z
    expanded = math.log(2) + (0.5 - y) * z + z**2 / 8
    np.testing.assert_allclose(loss, expanded, atol=1e-4)


def noise_of(kind, scale, each_cell=False, cells=1, d=60):
    rows, weights = np.zeros((0, d)), (1.0,) * cells
    door = sums(rows, np.zeros(0), np.zeros(0, dtype=np.int64))
    if kind == "gaussian":
        parts = [
            Block(name="", max_norm=norm, weights=weights, noise_std=s)
            for norm, s in zip(l2_bounds(), scale, strict=True)
        ]
        return door.gaussian(step(*parts), each_cell=each_cell)
    parts = [
        LaplaceSum(name="", max_norm=b, weights=weights, scale=s)
        for b, s in zip(l1_bounds(d), scale, strict=True)
    ]
    return door.laplace(*parts, each_cell=each_cell)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_noise_has_the_planned_law_and_the_matrix_stays_symmetric(kind):
    noise = noise_of(kind, (3.0, 2.0), each_cell=True, cells=30)
    law = stats.norm if kind == "gaussian" else stats.laplace
    M = noise.quadratic
    assert np.array_equal(M, M.transpose(0, 2, 1))
    upper = M[:, *np.triu_indices(60, 1)].ravel()
    diagonal = np.diagonal(M, axis1=1, axis2=2).ravel()
    # Isotropic among symmetric matrices: an entry that appears twice has half the variance.
    off = 2.0 / math.sqrt(2) if kind == "gaussian" else 2.0
    # Each test fails with chance 1e-9 if the law is right.
    for values, scale in ((noise.linear.ravel(), 3.0), (diagonal, 2.0), (upper, off)):
        assert stats.kstest(values, law(scale=scale).cdf).pvalue > 1e-9
        assert stats.kstest(values, law(scale=0.5 * scale).cdf).pvalue < 1e-9
    assert len(np.unique(noise.linear)) == noise.linear.size, "no draw is used twice"
    assert len(np.unique(upper)) == upper.size


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_plan_that_charges_too_little_never_reaches_the_rows(share):
    door = sums(np.eye(D), np.zeros(D))

    def gaussian(*norms, rate=1.0):
        blocks = [Block(name="", max_norm=m, weights=(1.0,), noise_std=1.0) for m in norms]
        return door.gaussian(dataclasses.replace(step(*blocks), rates=(rate,)))

    def laplace(*norms):
        parts = [LaplaceSum(name="", max_norm=m, weights=(1.0,), scale=1.0) for m in norms]
        return door.laplace(*parts)

    for release, (one, two) in ((gaussian, l2_bounds()), (laplace, l1_bounds(D))):
        release(one, two)
        with pytest.raises(ValueError, match="a row in the unit ball can reach"):
            release(one * share, two)
        with pytest.raises(ValueError, match="a row in the unit ball can reach"):
            release(one, two * share)
    with pytest.raises(ValueError, match="Moments are sums over all rows"):
        gaussian(*l2_bounds(), rate=share)
