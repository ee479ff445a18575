from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skfairdp.fairness.bounds.binomial_cells import binomial_means
from skfairdp.fairness.bounds.noisy_counts import (
    NoisyCells,
    cell_p_values,
    noise_tail,
    noise_variance,
    noisy_gap_estimate,
    private_gap_upper_bound,
    private_rate_intervals,
)
from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound
from skfairdp.privacy import NoiseSource

ONE = np.array([1])


def cells(successes, failures, *, public=False, terms=(1, 1)):
    successes, failures = np.array([successes]), np.array([failures])
    return NoisyCells(
        successes,
        failures,
        np.array([terms[0]]),
        np.array([terms[1]]),
        successes + failures if public else None,
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("error", [0.2, 0.01, 1e-4])
def test_tail_of_one_discrete_laplace_variable_is_the_closed_form(epsilon, error):
    # Pr(Z > t) = exp(-epsilon (t + 1)) / (1 + exp(-epsilon)).
    t = noise_tail(1, epsilon, error)

    def survival(x):
        return np.exp(-epsilon * (x + 1)) / (1 + np.exp(-epsilon))

    assert survival(t) <= error
    assert t == 0 or survival(t - 1) > error * (1 - 1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 3.0, 900.0])
def test_variance_of_the_noise_is_that_of_its_law(epsilon):
    z = np.arange(-1000, 1001)
    law = np.exp(-epsilon * np.abs(z))
    assert noise_variance(epsilon) == pytest.approx((law @ z**2) / law.sum(), rel=1e-9)


@pytest.mark.parametrize("terms", [2, 3, 8])
def test_tail_of_a_sum_is_the_convolution(terms):
    epsilon, error = 0.5, 0.00125
    z = np.arange(-200, 201)
    one = np.exp(-epsilon * np.abs(z)) * np.tanh(epsilon / 2)
    law = one
    for _ in range(terms - 1):
        law = np.convolve(law, one)
    law_support = np.arange(-200 * terms, 200 * terms + 1)
    t = noise_tail(terms, epsilon, error)
    assert law[law_support > t].sum() <= error
    assert law[law_support > t - 1].sum() > error


def test_nearly_noiseless_counts_give_nearly_the_exact_bound():
    exact = gap_upper_bound([300, 250], [1000, 1000])
    public = private_gap_upper_bound(cells([300, 250], [700, 750], public=True), 60.0)
    private = private_gap_upper_bound(cells([300, 250], [700, 750]), 60.0)
    assert public == pytest.approx(exact, rel=1e-3)
    # The sizes are nearly known then: what is left is the price of combined p-values.
    assert exact < private < 1.05 * exact


@pytest.mark.parametrize("rate", [0.02, 0.4])
@pytest.mark.parametrize("told", [1.0, 20.0])
def test_p_values_of_private_sizes_are_none_too_small_by_enumeration(rate, told):
    """Of one cell, where the interval of sizes holds; a twin that assumes less noise fails."""
    n, epsilon, reach = 6, 1.0, 3
    z = np.arange(-reach, reach + 1)
    law = np.exp(-epsilon * np.abs(z))
    law /= law.sum()
    chance, small, large = [], [], []
    for k, a, b in np.ndindex(n + 1, len(z), len(z)):
        counts = int(k + z[a]), int(n - k + z[b])
        found = cell_p_values(*counts, n - 1, n + 1, (1, 1), told, False)
        chance.append(stats.binom.pmf(k, n, rate) * law[a] * law[b])
        at = np.searchsorted(found.rates, rate, side="right") - 1
        small.append(found.below[at])
        large.append(found.above[min(at + 1, len(found.rates) - 1)])
    worst = 0.0
    for values in map(np.array, (small, large)):
        for level in (0.3, 0.1, 0.02, 0.001):
            worst = max(worst, float(np.array(chance) @ (values <= level)) / level)
    assert (worst <= 1.0) is (told == epsilon)


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "rates"), [((60, 60), (0.5, 0.3)), ((30, 300), (0.6, 0.05))])
def test_the_bound_of_private_sizes_covers(sizes, rates):
    rng, source, runs = np.random.default_rng(0), NoiseSource(generator_seed=0), 100
    hits = rng.binomial(sizes, rates, size=(runs, 1, 2))
    noisy = [x + source.discrete_laplace(1.0, x.shape) for x in (hits, np.array(sizes) - hits)]
    bounds = np.array(
        [
            private_gap_upper_bound(NoisyCells(hit, miss, ONE, ONE), 1.0, confidence_level=0.8)
            for hit, miss in zip(*noisy, strict=True)
        ]
    )
    missed = int((bounds < rates[0] - rates[1]).sum())
    assert stats.binomtest(missed, runs, 0.2, alternative="greater").pvalue > 1e-6
    assert missed > 0.02 * runs  # neither is it wide


@pytest.mark.parametrize("public", [False, True])
def test_a_cell_that_may_be_empty_allows_any_difference(public):
    half = private_gap_upper_bound(cells([0, 5000], [0, 5000], public=public), 1.0)
    assert half == 1.0 if public else half > 0.5
    assert private_gap_upper_bound(cells([0, 0], [0, 5000], public=public), 1.0) == 1.0
    assert private_gap_upper_bound(cells([-3, 2], [-2, 1]), 1.0) == 1.0


def test_a_million_rows_of_private_sizes_cost_little_more_than_public_ones():
    hits, one = np.full((1, 2), 300_000), np.array([1])
    found = private_gap_upper_bound(NoisyCells(hits, 1_000_000 - hits, one, one), 1.0)
    # The bound of the same counts without noise: .001066.
    assert 0.00107 < found < 0.00112


@pytest.mark.slow
def test_public_sizes_never_widen_the_bound():
    for epsilon in (0.05, 0.5):
        box = private_gap_upper_bound(cells([300, 250], [700, 750]), epsilon)
        exact = private_gap_upper_bound(cells([300, 250], [700, 750], public=True), epsilon)
        assert exact < box


def test_estimate_comes_from_the_noisy_counts():
    assert noisy_gap_estimate(cells([30, 25], [70, 75])) == pytest.approx(0.05)
    assert noisy_gap_estimate(cells([30, -25], [70, 20])) is None
    known = NoisyCells(np.array([[32, 25]]), np.array([[70, 77]]), ONE, ONE, np.array([[100, 100]]))
    # (100 + 32 - 70) / 200 and (100 + 25 - 77) / 200.
    assert noisy_gap_estimate(known) == pytest.approx(0.31 - 0.24)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("inf"), 1e-9])
def test_impossible_epsilon_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        private_gap_upper_bound(cells([3, 3], [5, 5]), epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("public", [False, True], ids=["private sizes", "public sizes"])
def test_interval_of_a_cell_holds_its_rate_as_often_as_it_says(public):
    rng, noise = np.random.default_rng(0), NoiseSource(generator_seed=0)
    rate, n, runs, epsilon = 0.3, 60, 400 if public else 80, 0.2
    one = np.array([1])
    missed = 0
    for _ in range(runs):
        hits = rng.binomial(n, rate)
        counts = np.array([hits, n - hits]) + noise.discrete_laplace(epsilon, 2)
        sizes = np.array([[n]]) if public else None
        cells = NoisyCells(counts[:1, None], counts[1:, None], one, one, sizes)
        lower, upper = private_rate_intervals(cells, epsilon, confidence_level=0.9)
        missed += not lower[0, 0] <= rate <= upper[0, 0]
    # Refuted at 1e-6 if more than a tenth are missed.
    assert stats.binomtest(missed, runs, 0.1, alternative="greater").pvalue > 1e-6


def test_interval_of_a_cell_without_rows_is_the_whole_line():
    one, none = np.array([1]), np.array([[0]])
    for sizes in (None, none):
        lower, upper = private_rate_intervals(NoisyCells(none, none, one, one, sizes), 1.0)
        assert (lower.item(), upper.item()) == (0.0, 1.0)


@pytest.mark.parametrize("sizes", [[0, 1, 7, 400], [59_900, 60_000]])
def test_means_of_many_laws_are_those_of_each(sizes) -> None:
    n, rates = np.array(sizes), np.array([0.0, 1e-12, 0.01, 0.3, 0.301, 0.9, 1.0 - 1e-9, 1.0])
    found = binomial_means(n, rates, lambda k: np.stack([np.cos(k + n[:, None]), k < n[:, None]]))
    for i, size in enumerate(sizes):
        k = np.arange(size + 1)
        laws = stats.binom.pmf(k, size, rates[:, None])
        assert np.allclose(found[0, i], laws @ np.cos(k + size), rtol=0, atol=1e-10)
        assert np.allclose(found[1, i], laws @ (k < size), rtol=0, atol=1e-10)


def test_counts_that_are_changed_in_place_have_a_bound_of_their_own() -> None:
    one = np.array([1])
    cells = NoisyCells(np.array([[300, 250]]), np.array([[700, 750]]), one, one)
    before = private_gap_upper_bound(cells, 1.0)
    cells.successes[0, 0] += 100
    assert private_gap_upper_bound(cells, 1.0) > before
    cells.successes[0, 0] -= 100
    assert private_gap_upper_bound(cells, 1.0) == before
