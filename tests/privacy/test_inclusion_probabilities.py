"""Rates made from released counts: what they equalise, and that each record decides alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from skfairdp.privacy import NoiseSource
from skfairdp.privacy.inclusion_probabilities import SamplingRates, release_table

tables = hnp.arrays(
    np.int64,
    st.tuples(st.integers(1, 5), st.integers(2, 4)),
    elements=st.integers(-50, 100_000),
)


def names(table: np.ndarray) -> tuple[range, range]:
    return range(table.shape[0]), range(table.shape[1])


@settings(max_examples=300, deadline=None)
@given(table=tables, tolerance=st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]))
def test_label_rates_of_any_two_groups_differ_by_at_most_the_tolerance(table, tolerance):
    made = SamplingRates.equal_label_rates(table, *names(table), tolerance=tolerance)
    rates, counts = np.array(made.rates), np.array(made.counts)
    assert (rates >= 0.0).all()
    assert (rates <= 1.0).all()
    kept = rates * counts
    share = kept / kept.sum(axis=1, keepdims=True)
    assert np.ptp(share, axis=0).max() <= tolerance + 1e-9
    # As many as possible: scaling any group up would ask for more records than there are.
    assert rates.max(axis=1) == pytest.approx(1.0)


def test_a_tolerance_that_the_table_meets_keeps_every_record():
    table = [[60, 40], [55, 45]]
    kept = SamplingRates.equal_label_rates(table, "ab", (0, 1), tolerance=0.0501)
    assert kept.rates == ((1.0, 1.0), (1.0, 1.0))
    thinned = SamplingRates.equal_label_rates(table, "ab", (0, 1), tolerance=0.0499)
    assert np.min(thinned.rates) < 1.0


def test_the_rates_of_a_small_table_by_hand():
    # Pooled: 140 of 200 without, 60 with. Group a may keep 50 / .7 = 71.4, i.e. 21.4 of its
    # 50 with; group b 10 / .3 = 33.3, i.e. 23.3 of its 90 without.
    made = SamplingRates.equal_label_rates([[50, 50], [90, 10]], "ab", (0, 1))
    expected = [[1.0, 50 / 0.7 * 0.3 / 50], [10 / 0.3 * 0.7 / 90, 1.0]]
    np.testing.assert_allclose(made.rates, expected)
    assert made.group_sizes == {"a": 71, "b": 33}
    assert made.total == 200


def test_noisy_counts_are_raised_to_the_level_of_their_noise():
    made = SamplingRates.equal_label_rates([[-12, 500], [3, 900]], "ab", (0, 1), epsilon=0.1)
    assert made.counts == ((70, 500), (70, 900))  # Pr(|noise| > 70) is about exp(-.1 * 70) < 1e-3
    exact = SamplingRates.equal_label_rates([[0, 500], [3, 900]], "ab", (0, 1))
    assert exact.counts == ((1, 500), (3, 900))


def test_the_smallest_probability_can_be_set():
    table = [[990, 10], [10, 990]]
    assert np.min(SamplingRates.equal_label_rates(table, "ab", (0, 1)).rates) < 0.02
    made = SamplingRates.equal_label_rates(table, "ab", (0, 1), minimum_rate=0.3)
    assert np.min(made.rates) == 0.3


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), removed=st.integers(0, 199))
def test_removing_a_record_changes_no_other_decision(seed, removed):
    generator = np.random.default_rng(seed)
    groups, labels = generator.integers(-1, 3, 200), generator.integers(-1, 2, 200)
    draws = generator.random(200)
    made = SamplingRates.equal_label_rates(generator.integers(0, 99, (3, 2)), range(3), (0, 1))
    whole = made.keep(groups, labels, draws)
    rest = np.arange(200) != removed
    assert np.array_equal(made.keep(groups[rest], labels[rest], draws[rest]), whole[rest])


def test_every_cell_is_kept_as_often_as_its_rate_says_and_strangers_never():
    made = SamplingRates.equal_label_rates([[50, 50], [90, 10]], "ab", (0, 1))
    n = 40_000
    draws = NoiseSource().sampling.random(n)
    for group in (0, 1):
        for label in (0, 1):
            rate = made.rates[group][label]
            kept = made.keep(np.full(n, group), np.full(n, label), draws).mean()
            # Five and a half standard errors: fails with probability below 1e-7.
            assert abs(kept - rate) <= 5.5 * (rate * (1 - rate) / n) ** 0.5
    assert not made.keep(np.full(n, -1), np.zeros(n, dtype=int), draws).any()
    assert not made.keep(np.zeros(n, dtype=int), np.full(n, -1), draws).any()


class Silent:
    """No noise; remembers what it was asked for."""

    def discrete_laplace(self, epsilon, size):
        self.asked = (epsilon, size)
        return np.zeros(size, dtype=np.int64)


def test_every_record_adds_one_to_one_count_of_the_table():
    generator = np.random.default_rng(0)
    groups, labels = generator.integers(-1, 3, 500), generator.integers(-1, 2, 500)
    noise = Silent()
    whole = release_table(groups, labels, (3, 2), 0.25, noise)
    assert noise.asked == (0.25, 6)
    assert whole[2, 1] == np.sum((groups == 2) & (labels == 1))
    for i in range(100):
        rest = np.delete(np.arange(500), i)
        changed = np.abs(whole - release_table(groups[rest], labels[rest], (3, 2), 0.25, noise))
        assert changed.sum() == (groups[i] >= 0 and labels[i] >= 0)


def test_the_table_is_noisy():
    codes = np.zeros(1000, dtype=int)
    released = {
        int(release_table(codes, codes, (1, 2), 0.1, NoiseSource())[0, 0]) for _ in range(20)
    }
    # Twenty equal draws of noise whose likeliest value has probability .05.
    assert len(released) > 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SamplingRates("ab", (0, 1), ((1, 1),), ((1.0, 1.0),)), "'counts' has shape"),
        (lambda: SamplingRates("a", (0,), ((0,),), ((1.0,),)), "'counts' must be at least 1"),
        (lambda: SamplingRates("a", (0,), ((1,),), ((1.5,),)), "'rates' must be prob"),
        (lambda: SamplingRates("a", (0,), ((1,),), ((float("nan"),),)), "'rates' must be prob"),
        (
            lambda: SamplingRates.equal_label_rates([[1, 1]], "a", (0, 1), tolerance=-0.1),
            "'tolerance' must be .* got -0.1",
        ),
        (
            lambda: SamplingRates.equal_label_rates([[1, 1]], "a", (0, 1), minimum_rate=2),
            "'minimum_rate'",
        ),
    ],
)
def test_bad_arguments_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
