"""The exact bound: its figures, its coverage by enumeration, and what it replaced as an oracle."""

from __future__ import annotations

import itertools
import time
from functools import cache

import numpy as np
import pytest
from scipy import stats

from skfairdp.fairness.bounds import binomial_pairs
from skfairdp.fairness.bounds.binomial_cells import BinomialCell, clopper_pearson
from skfairdp.fairness.bounds.noisy_counts import noise_law
from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound, largest_gap_bound

ALPHA = 0.05


def pair_bound(u, v, alpha):
    return binomial_pairs.CellPair(u, v, alpha).bound()


@cache
def every_bound(n, m, alpha=ALPHA):
    """Bounds of all outcomes of one ordered pair, for the tests that compare them."""
    return np.array(
        [
            [pair_bound(BinomialCell(y, n), BinomialCell(z, m), alpha) for z in range(m + 1)]
            for y in range(n + 1)
        ]
    )


def rectangle(n, m, alpha=ALPHA):
    """What stood here before: limits of Clopper and Pearson at alpha / 2 each, subtracted."""
    upper = clopper_pearson(np.arange(n + 1), n - np.arange(n + 1), alpha / 2)[1]
    lower = clopper_pearson(np.arange(m + 1), m - np.arange(m + 1), alpha / 2)[0]
    return np.clip(upper[:, None] - lower[None, :], 0.0, 1.0)


def approximate(n, m, alpha=ALPHA):
    """What orders the outcomes: distances of one-sided limits added in squares, as Newcombe did."""
    upper = clopper_pearson(np.arange(n + 1), n - np.arange(n + 1), alpha)[1]
    lower = clopper_pearson(np.arange(m + 1), m - np.arange(m + 1), alpha)[0]
    rate, other = np.arange(n + 1)[:, None] / n, np.arange(m + 1)[None, :] / m
    return rate - other + np.hypot(upper[:, None] - rate, other - lower[None, :])


def score_limit(n, m, alpha=ALPHA):
    """Largest d that the score test of Miettinen and Nurminen does not reject, asymptotically."""
    bounds, open_ = np.ones((n + 1, m + 1)), np.ones((n + 1, m + 1), dtype=bool)
    y, z = np.arange(n + 1)[:, None], np.arange(m + 1)[:, None]
    for d in np.linspace(0.995, 0.0, 200):
        q = np.linspace(0.0, 1.0 - d, 400)[1:-1]
        p = q + d
        first, second = stats.binom.logpmf(y, n, p), stats.binom.logpmf(z, m, q)
        best = (first[:, None] + second[None]).argmax(axis=2)
        p, q = p[best], q[best]
        spread = p * (1 - p) / n + q * (1 - q) / m
        kept = (y / n - z.T / m - d) / np.sqrt(spread) >= stats.norm.ppf(alpha)
        bounds[kept & open_] = d
        open_ &= ~kept
    return bounds


def law(n, p):
    return stats.binom.pmf(np.arange(n + 1), n, p[:, None])


def worst_miss(bounds, laws=law, sizes=None):
    """Largest probability that a bound lies below the true difference, over pairs of rates.

    It is largest just above a value that the bound can take.
    """
    n, m = sizes or (len(bounds) - 1, bounds.shape[1] - 1)
    worst = 0.0
    for value in np.unique(bounds[bounds < 1.0]):
        d = value + 1e-9
        q = (1.0 - d) * np.sin(np.linspace(0.0, np.pi / 2, 129)) ** 2
        missed = (bounds <= value).astype(float)
        chance = np.einsum("ij,jk,ik->i", laws(n, np.minimum(q + d, 1.0)), missed, laws(m, q))
        worst = max(worst, float(chance.max()))
    return worst


@pytest.mark.parametrize(
    ("count", "bound", "wanted"), [(9, 0.2017, 0.205), (15, 0.2252, 0.230), (3, 0.1486, 0.155)]
)
def test_figures_of_thirty_rows_a_group(count, bound, wanted):
    found = gap_upper_bound([count, count], [30, 30])
    assert found == pytest.approx(bound, abs=1e-4)
    assert found <= wanted


@pytest.mark.parametrize(
    ("n", "m"), [*itertools.product(range(1, 5), repeat=2), (9, 9), (15, 4), (4, 15)]
)
def test_coverage_by_enumeration(n, m):
    bounds = every_bound(n, m)
    assert worst_miss(bounds) <= ALPHA
    assert np.all(bounds <= rectangle(n, m) + 1e-5)


@pytest.mark.parametrize("alpha", [0.5, 0.2, 0.001])
def test_coverage_by_enumeration_at_other_levels(alpha):
    bounds = every_bound(6, 5, alpha)
    assert worst_miss(bounds) <= alpha
    assert np.all(bounds >= np.subtract.outer(np.arange(7) / 6, np.arange(6) / 5))


@pytest.mark.parametrize(
    "twin",
    [
        pytest.param(score_limit, marks=pytest.mark.slow),
        lambda n, m: every_bound(n, m) - 0.02,
    ],
)
def test_enumeration_catches_a_limit_that_is_none(twin):
    assert worst_miss(np.clip(twin(9, 9), 0.0, 1.0)) > ALPHA + 0.004


def test_bounds_rise_with_the_first_count_and_fall_with_the_second():
    bounds = every_bound(15, 4)
    assert np.all(np.diff(bounds, axis=0) >= -1e-5)
    assert np.all(np.diff(bounds, axis=1) <= 1e-5)


def test_success_and_failure_may_be_exchanged():
    bounds = every_bound(15, 4)
    assert np.allclose(bounds, every_bound(4, 15)[::-1, ::-1].T, atol=2e-4)


@pytest.mark.slow
def test_coverage_of_three_groups_by_enumeration():
    # Nothing is split over the six ordered pairs.
    n = 4
    bounds = {
        counts: largest_gap_bound([[BinomialCell(k, n) for k in counts]], ALPHA)
        for counts in itertools.product(range(n + 1), repeat=3)
    }
    rates = np.linspace(0.0, 1.0, 21)
    missed = 0.0
    for p in itertools.product(rates, repeat=3):
        gap = max(p) - min(p)
        laws = law(n, np.array(p))
        missed = max(
            missed,
            sum(
                laws[0, a] * laws[1, b] * laws[2, c]
                for (a, b, c), bound in bounds.items()
                if bound < gap - 1e-9
            ),
        )
    assert 0.02 < missed <= ALPHA


def noisy_law(n, p, noise):
    plain = np.zeros((len(p), 2 * n + 1))
    plain[:, ::2] = law(n, p)
    return np.array([np.convolve(row, noise) for row in plain])


def noisy_bounds(n, m, told, drawn):
    """Bounds of all outcomes with the noise `drawn`, by a test that assumes the noise `told`."""
    reach = len(drawn) // 2
    return np.array(
        [
            [
                pair_bound(BinomialCell(y, n, told), BinomialCell(z, m, told), ALPHA)
                for z in range(-reach, 2 * m + reach + 1)
            ]
            for y in range(-reach, 2 * n + reach + 1)
        ]
    )


@pytest.mark.slow
def test_coverage_with_noise_by_enumeration():
    n, m, noise = 3, 2, noise_law(2, 3.0)
    noise = noise[len(noise) // 2 - 4 : len(noise) // 2 + 5]  # the rest has 1e-5

    def laws(size, p):
        return noisy_law(size, p, noise)

    assert worst_miss(noisy_bounds(n, m, noise, noise), laws, (n, m)) <= ALPHA
    little = np.concatenate([np.zeros(4), [1.0], np.zeros(4)])
    assert worst_miss(noisy_bounds(n, m, little, noise), laws, (n, m)) > 2 * ALPHA


def test_large_cells_agree_with_the_whole_range_of_rates(monkeypatch):
    cells = BinomialCell(130, 450), BinomialCell(60, 220)
    short = pair_bound(*cells, ALPHA)
    monkeypatch.setattr(binomial_pairs, "_LARGE", 10_000)
    whole = pair_bound(*cells, ALPHA)
    assert 0.95 * whole < short < 1.001 * whole


def test_wide_tables_and_huge_ones_have_bounds():
    # Close to what a normal approximation gives, which is accurate here.
    for k, n in ((3_000, 10_000), (30_000, 100_000)):
        found = pair_bound(BinomialCell(k, n), BinomialCell(k, n), ALPHA)
        normal = stats.norm.isf(ALPHA) * np.sqrt(2 * 0.3 * 0.7 / n)
        assert normal < found < 1.01 * normal


def test_the_bound_of_many_cells_is_the_largest_of_the_pairs():
    rng = np.random.default_rng(0)
    strata = [
        [BinomialCell(int(rng.binomial(n, 0.4)), int(n)) for n in rng.integers(20, 90, size=4)]
        for _ in range(3)
    ]
    slow = max(
        pair_bound(u, v, ALPHA) for cells in strata for u, v in itertools.permutations(cells, 2)
    )
    assert largest_gap_bound(strata, ALPHA) == pytest.approx(slow, rel=1e-4)


def test_the_second_derivative_stays_below_its_bound():
    """The intervals rest on it; a tenth of it would be too little."""
    rng, ratios = np.random.default_rng(0), []
    for n, m in ((3, 5), (40, 7), (60, 500)):
        pair = binomial_pairs.CellPair(BinomialCell(n // 2, n), BinomialCell(m // 3, m), ALPHA)
        for d in rng.uniform(0.0, 0.6, size=8):
            q = np.sort(rng.uniform(0.02, 0.98 - d, size=16))
            slopes = [pair.probability(q + d + e, q + e, slopes=True)[1] for e in (-1e-6, 1e-6)]
            chance = pair.probability(q + d, q)[0]
            bound = pair._curvature(q, q, d, chance)
            seen = np.abs(slopes[1] - slopes[0]) / 2e-6
            assert np.all(seen <= bound + 1e-3)
            ratios += (seen / bound)[chance > 1e-3].tolist()
    assert max(ratios) > 0.1


def first_not_missed(n, m, gaps, alpha=ALPHA):
    """For each gap the outcomes, in their order, of which no more may have a bound below it.

    Result: outcomes (rank, y, z) in their order, where ties have one rank, and for each gap the
    first rank whose outcomes, with all before, have more than `alpha` at some rates so far apart;
    what is before has the probabilities (n_gaps, n_ranks).
    """
    place = approximate(n, m, alpha)
    ranked = np.argsort(place, axis=None, kind="stable")
    places = place.ravel()[ranked]
    ends = np.flatnonzero(np.append(np.diff(places) > 1e-9, True))
    chances = []
    for d in gaps:
        q = (1.0 - d) * np.sin(np.linspace(0.0, np.pi / 2, 65)) ** 2
        joint = law(n, np.minimum(q + d, 1.0))[:, :, None] * law(m, q)[:, None, :]
        sums = np.cumsum(joint.reshape(len(q), -1)[:, ranked], axis=1)[:, ends]
        chances.append(sums.max(axis=0))
    return ranked[ends], np.array(chances)


def worst_by_rank(n, m, gaps, bound, alpha=ALPHA):
    """Largest probability of a bound below the gap, where bounds do not fall along the order."""
    outcomes, chances = first_not_missed(n, m, gaps, alpha)
    worst, widest, old = 0.0, -1.0, rectangle(n, m, alpha)
    for d, chance in zip(gaps, chances, strict=True):
        rank = int(np.searchsorted(chance, alpha, side="right"))
        # From the first outcome that must not be missed back to the last one that is.
        for at in range(min(rank, len(outcomes) - 1), -1, -1):
            y, z = divmod(int(outcomes[at]), m + 1)
            found = bound(BinomialCell(y, n), BinomialCell(z, m), alpha)
            widest = max(widest, found - old[y, z])
            if found < d:
                worst = max(worst, float(chance[at]))
                break
    return worst, widest


@pytest.mark.slow
def test_enumeration_by_rank_is_enumeration():
    bounds = every_bound(7, 5)
    gaps = np.unique(bounds[bounds < 1.0]) + 1e-9
    worst, _ = worst_by_rank(7, 5, gaps, pair_bound)
    assert worst == pytest.approx(worst_miss(bounds), abs=1e-4)
    short, _ = worst_by_rank(7, 5, gaps, lambda u, v, alpha: pair_bound(u, v, alpha) - 0.02)
    assert short > ALPHA


@pytest.mark.campaign
@pytest.mark.parametrize("n", range(1, 61))
def test_coverage_by_enumeration_up_to_sixty(n):
    """For every size of the other group; minutes in all."""
    begun, gaps = time.perf_counter(), (0.02, 0.1, 0.3, 0.6)
    found = [worst_by_rank(n, m, gaps, pair_bound) for m in range(1, 61)]
    worst, widest = (max(column) for column in zip(*found, strict=True))
    print(
        f"{n} rows against 1 to 60: worst miss {worst:.5f}, bound minus the old one at most "
        f"{widest:.1e}, {time.perf_counter() - begun:.0f} s"
    )
    assert worst <= ALPHA
    assert widest <= 1e-4


@pytest.mark.parametrize(("noise", "alpha"), [(None, 1e-14), (noise_law(2, 1.0), 1e-11)])
def test_an_error_that_is_lost_in_rounding_allows_any_difference(noise, alpha):
    cells = [BinomialCell(5, 10, noise), BinomialCell(3, 10, noise)]
    assert largest_gap_bound([cells], alpha) == 1.0
