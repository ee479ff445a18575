"""E-processes by enumeration, against slow products, and twins that are none."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from skfairdp.monitoring.evidence import (
    STAKES,
    NoisyEvidence,
    PairedEvidence,
    _log_mean,
    drift_statistics,
    log_laplace_moment,
    lower_limit,
    pair_steps,
    upper_limit,
)


def law(p, q):
    """Probabilities of a difference of -1, 0 and 1."""
    return np.array([(1 - p) * q, p * q + (1 - p) * (1 - q), p * (1 - q)])


def expectation(evidence, p, q, n):
    """Mean of exp(evidence) over all sequences of n pairs."""
    total = 0.0
    for less, same in itertools.product(range(n + 1), repeat=2):
        if less + same <= n:
            counts = (n - less - same, same, less)
            ways = stats.multinomial.pmf(counts, n, law(p, q)[::-1])
            total += ways * math.exp(evidence(PairedEvidence(*counts)))
    return total


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.4), (0.15, 0.05), (0.95, 0.05), (0.3, 0.5)])
def test_evidence_has_mean_one_at_the_edge_of_what_it_is_against(p, q):
    d = p - q
    for n in (1, 4):
        assert expectation(lambda e: e.below(d), p, q, n) == pytest.approx(1.0)
        assert expectation(lambda e: e.reversed.below(-d), p, q, n) == pytest.approx(1.0)
        assert expectation(lambda e: e.below(d - 0.1), p, q, n) < 1.0
        assert expectation(lambda e: e.reversed.below(-d - 0.1), p, q, n) < 1.0
        # A twin that is told a gap smaller than the true one grows.
        assert expectation(lambda e: e.reversed.below(0.1 - d), p, q, n) > 1.0


def test_counts_give_what_a_product_over_the_pairs_gives():
    differences = np.array([1, 0, 0, -1, 1, 1, 0], dtype=np.int8)
    evidence = PairedEvidence().with_pairs(differences)
    assert evidence == PairedEvidence(3, 3, 1)
    d = 0.07
    bets = STAKES / (1 + d)
    slow = np.mean([np.prod(1 + bet * (differences - d)) for bet in bets])
    assert math.exp(evidence.reversed.below(-d)) == pytest.approx(slow)
    steps = pair_steps(differences, d)
    assert np.exp(steps[:, 0].sum(axis=0)).mean() == pytest.approx(slow)
    assert np.exp(steps[:, 1].sum(axis=0)).mean() == pytest.approx(math.exp(evidence.below(-d)))


def test_limits_are_where_evidence_crosses():
    evidence = PairedEvidence(300, 900, 150)
    upper, lower = upper_limit(evidence, 0.05), lower_limit(evidence, 0.05)
    assert evidence.below(upper) == pytest.approx(math.log(20), abs=1e-6)
    assert 0.0 < lower < 150 / 1350 < upper < 0.2
    assert upper_limit(PairedEvidence(), 0.05) == 1.0
    assert lower_limit(PairedEvidence(), 0.05) == 0.0
    assert lower_limit(evidence.reversed, 0.05) == lower


@pytest.mark.parametrize("epsilon", [0.1, 2.0])
def test_moment_of_the_noise_is_that_of_its_law(epsilon):
    z = np.arange(-int(300 / epsilon), int(300 / epsilon) + 1)
    noise = np.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(z))
    for s in (0.0, 0.3 * epsilon, -0.9 * epsilon):
        slow = np.log((noise * np.exp(s * z)).sum())
        assert log_laplace_moment(np.array(s), epsilon) == pytest.approx(slow, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 5.0])
def test_noisy_evidence_is_one_on_average_at_most(epsilon):
    p, q, rows, terms = 0.4, 0.3, (6, 4), 2
    z = np.arange(-60, 61)
    one = np.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(z))
    noise = np.convolve(one, one)
    noise /= noise.sum()
    half = np.arange(-120, 121) / 2

    def mean(told):
        total = 0.0
        for j, a in enumerate(stats.binom.pmf(np.arange(7), 6, p)):
            for k, b in enumerate(stats.binom.pmf(np.arange(5), 4, q)):
                both, _ = NoisyEvidence.none(told).with_batch((0.0, 0.0), rows, terms)
                weight = both.weight
                gap = weight * ((j + half)[:, None] / 6 - (k + half)[None, :] / 4)
                factors = np.exp(both.tilts * (gap[..., None] - 0.1 * weight) - both.costs).mean(
                    axis=-1
                )
                total += a * b * float(noise @ factors @ noise)
        return total

    assert mean(epsilon) <= 1.0
    if epsilon < 1:
        # A twin that believes in a third of the noise.
        assert mean(3 * epsilon) > 1.0


def test_batches_add_up():
    none = NoisyEvidence.none(1.0)
    both, alone = none.with_batch((30.0, 20.5), (100, 90), 2)
    assert alone.below(0.3) == both.below(0.3)
    twice, _ = both.with_batch((30.0, 20.5), (100, 90), 2)
    assert twice.total == 2 * both.total
    assert upper_limit(twice, 0.05) < upper_limit(both, 0.05)


def test_drift_statistics_are_the_slow_recursion():
    rng = np.random.default_rng(0)
    differences = rng.choice([-1, 0, 1], 9000, p=[0.2, 0.5, 0.3]).astype(np.int8)
    steps = pair_steps(differences, 0.2)
    slow = np.zeros((2, len(STAKES)))
    largest = 0.0
    for step in steps:
        slow = (slow + 1.0) * np.exp(step)
        largest = max(largest, slow.mean())
    start = np.full((2, len(STAKES)), -np.inf)
    end, peak = drift_statistics(start, steps)
    assert np.allclose(end, np.log(slow))
    assert peak == pytest.approx(math.log(largest))
    # In parts the same.
    half, first = drift_statistics(start, steps[:4000])
    rest, second = drift_statistics(half, steps[4000:])
    assert np.allclose(rest, end)
    assert max(first, second) == pytest.approx(peak)
    # A mean of R - t of zero: E R_t = t where each factor has mean one.
    small = pair_steps(np.array([-1, 0, 1], dtype=np.int8), 0.1)
    assert law(0.5, 0.4) @ np.exp(small[:, 0]) == pytest.approx(np.ones(len(STAKES)))


def test_the_logarithm_of_a_mean_has_the_bits_of_the_library() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(2_000, 8)) * 10.0 ** rng.integers(-3, 6, size=(2_000, 1))
    drawn[::3] = drawn[::3].round()  # several are the largest
    for terms in (*drawn, np.zeros(8), np.full(8, -1e300), np.full(8, np.inf)):
        assert _log_mean(terms) == float(special.logsumexp(terms)) - math.log(8)
