"""Copies of rows in two processes are found in any order; duplicates of a table are none."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import hypergeom

from skfairdp.datasets import fetch_adult
from skfairdp.engine import overlap
from skfairdp.engine.overlap import FALSE_ALARM, SKETCH, hold_copies, log_chance, sketch

KEY = b"k" * 32
# Copies without any honest duplicate that are always found: 2**-FOUND is below the level.
FOUND = math.ceil(math.log2(overlap._FIXED_SIZES / FALSE_ALARM)) + 3


def sketches(*parts, size=SKETCH):
    return [sketch([part], KEY, size) for part in parts]


def continuous(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 6)).astype(np.float32)


def changed(rows, at=0):
    """A copy of rows with one of them changed, in another order."""
    other = rows.copy()
    other[at] += 9.0
    return other[np.random.default_rng(4).permutation(len(rows))]


def few_values(n, n_columns, seed=0):
    return np.random.default_rng(seed).integers(0, 2, (n, n_columns)).astype(np.float32)


@pytest.mark.parametrize(
    "rows",
    [continuous(450), few_values(450, 6), few_values(4000, 10)],
    ids=["continuous", "64 values", "1,024 values"],
)
def test_copies_are_found_in_another_order_and_with_a_changed_row(rows) -> None:
    shuffled = rows[np.random.default_rng(4).permutation(len(rows))]
    assert hold_copies(sketches(rows, shuffled))
    assert hold_copies(sketches(rows, changed(rows)))
    assert hold_copies(sketches(continuous(450, 7), rows, shuffled))


def test_a_part_of_the_rows_is_found_from_a_few_on() -> None:
    first, second = continuous(5000), continuous(3000, seed=1)
    second[:FOUND] = first[-FOUND:]
    assert hold_copies(sketches(first, second))
    second[10:FOUND] = continuous(FOUND, seed=2)[10:]
    assert not hold_copies(sketches(first, second))  # the documentation says so


def test_of_more_rows_than_a_sketch_holds_one_in_fifty_is_found() -> None:
    # The copied rows among the smallest SKETCH digests of the larger part are hypergeometric; a
    # miss needs fewer than FOUND of them.
    n, size, copied = 40_000, 4096, 800
    assert hypergeom.cdf(FOUND - 1, n, copied, size) < 1e-3
    first, second = continuous(n), continuous(n // 2, seed=1)
    second[:copied] = first[:copied]
    assert hold_copies(sketches(first, second, size=size))


def test_the_printed_miss_probability_holds() -> None:
    """Of a million rows a process, one in two hundred in two: missed at most once in 10**4."""
    assert hypergeom.cdf(FOUND - 1, 1_000_000, 5_000, SKETCH) < 1e-4


def dealt(rows, seed):
    order = np.random.default_rng(seed).permutation(len(rows))
    return rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]


@pytest.mark.parametrize("n_columns", [1, 3, 6, 12, 20])
def test_duplicates_of_a_table_that_was_dealt_out_are_no_copies(n_columns) -> None:
    rows = few_values(2000, n_columns)
    for seed in range(20):
        assert not hold_copies(sketches(*dealt(rows, seed)))


@pytest.mark.parametrize("n_columns", [1, 2, 3, 6, 10])
def test_adult_dealt_out_is_accepted_and_copied_is_refused(data_home, n_columns) -> None:
    table = fetch_adult(data_home=data_home).data
    codes = [pd.factorize(table[name])[0] for name in table.columns[:n_columns]]
    rows = np.stack(codes, axis=1).astype(np.float32)
    assert not hold_copies(sketches(*dealt(rows, 0)))
    assert not hold_copies(sketches(rows[::2], rows[1::2]))
    few = len(np.unique(rows, axis=0)) < 30  # too few for a test of their counts
    assert hold_copies(sketches(rows[:20_000], changed(rows[:20_000]))) != few


def test_the_bound_is_one_over_random_deals() -> None:
    """The chance of a bound below one in ten is at most that, but for parts of fixed sizes.

    400 deals: above 68 below one in ten has a chance below 1e-5 if the rate is a tenth.
    """
    rows, low = few_values(600, 8), 0
    for seed in range(400):
        to_first = np.random.default_rng(seed).random(len(rows)) < 0.5
        low += log_chance(*sketches(rows[to_first], rows[~to_first])) <= math.log(0.1)
    assert 0 <= low <= 68


@pytest.mark.parametrize("t", [513, 514, 1001, 4096, 20_000, 100_000])
def test_values_of_more_rows_count_as_those_of_fewer(t) -> None:
    allowed = overlap._log_transform(overlap._MANY) * overlap._SMALLER
    assert (overlap._log_transform(t) <= allowed).all()


def test_parts_of_rows_and_their_types_change_nothing() -> None:
    rows = few_values(900, 12)
    whole = sketch([rows], KEY, 100)
    parts = sketch([rows[:7], rows[7:300], rows[300:]], KEY, 100)
    for one in (parts, sketch([np.where(rows == 0, np.float32(-0.0), rows)], KEY, 100)):
        assert np.array_equal(one.digests, whole.digests)
        assert np.array_equal(one.counts, whole.counts)
    assert not whole.whole
    assert not np.intersect1d(sketch([rows], b"o" * 32).digests, whole.digests).size
