"""Poisson batches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skfairdp.records.sampling import PoissonSampler


def test_every_record_is_drawn_at_its_own_rate():
    codes = np.array([0] * 30 + [1] * 20 + [-1] * 5)
    sampler = PoissonSampler(codes, 2, np.random.default_rng(0))
    rounds = 4000
    seen = np.zeros(len(codes), dtype=int)
    for _ in range(rounds):
        seen[sampler.draw((0.3, 0.05)).rows] += 1
    assert (seen[codes == -1] == 0).all()
    for code, rate in ((0, 0.3), (1, 0.05)):
        # 50 two-sided tests in all: failure probability 1e-6 each.
        low, high = stats.binom.ppf([5e-7, 1 - 5e-7], rounds, rate)
        assert ((seen[codes == code] >= low) & (seen[codes == code] <= high)).all()


def test_records_are_drawn_independently_of_each_other():
    sampler = PoissonSampler(np.zeros(6, dtype=int), 1, np.random.default_rng(1))
    rounds = 20_000
    drawn = np.zeros((rounds, 6), dtype=bool)
    for i in range(rounds):
        drawn[i, sampler.draw((0.4,)).rows] = True
    sizes = drawn.sum(axis=1)
    expected = rounds * stats.binom.pmf(np.arange(7), 6, 0.4)
    # The batch size is binomial only if the coins are independent; false alarm 1e-6.
    assert stats.chisquare(np.bincount(sizes, minlength=7), expected).pvalue > 1e-6
    # Under independence a sample correlation is about N(0, 1 / rounds).
    correlation = np.corrcoef(drawn.T)[np.triu_indices(6, 1)]
    assert np.abs(correlation).max() < stats.norm.isf(1e-6) / np.sqrt(rounds)


def test_a_cell_may_be_empty_and_a_batch_too():
    sampler = PoissonSampler(np.array([0, 0, 0]), 3, np.random.default_rng(2))
    batch = sampler.draw((1.0, 0.5, 0.5))
    assert batch.sizes == (3, 0, 0)
    assert sampler.draw((1e-12, 0.5, 0.5)).rows.shape == (0,)


def test_spread_gives_each_row_the_value_of_its_cell():
    sampler = PoissonSampler(np.array([1, 0, 1, 0, 1]), 2, np.random.default_rng(3))
    batch = sampler.draw((1.0, 1.0))
    values = batch.spread((10.0, 20.0))
    assert values.tolist() == [10.0, 10.0, 20.0, 20.0, 20.0]
    assert sorted(batch.rows[:2]) == [1, 3]


@pytest.mark.parametrize("n_slots", [1, 7])
def test_slots_are_uniform(n_slots):
    sampler = PoissonSampler(np.zeros(1, dtype=int), 1, np.random.default_rng(4))
    counts = np.bincount(sampler.slots(70_000, n_slots), minlength=n_slots)
    assert stats.chisquare(counts).pvalue > 1e-6 if n_slots > 1 else counts[0] == 70_000


def test_no_row_is_drawn_twice_where_numpy_gives_a_gap_of_zero() -> None:
    """Its exponential numbers are 0 once in 2**53 times; here some gaps of every draw are."""

    class Zeros(np.random.Generator):
        def geometric(self, p, size=None):
            gaps = super().geometric(p, size)
            gaps[[0, 3]] = 0
            return gaps

    sampler = PoissonSampler(np.zeros(50, dtype=int), 1, Zeros(np.random.PCG64(0)))
    for _ in range(80):
        rows = sampler.draw((0.2,)).rows
        assert len(np.unique(rows)) == len(rows)
        assert ((rows >= 0) & (rows < 50)).all()
