"""Every record draws its shard by itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skfairdp.aggregation import assign_shards
from skfairdp.aggregation.shards import rows_by_shard, teacher_generator

FAILURE = 1e-6


def test_shards_are_uniform() -> None:
    shards = assign_shards(50_000, 20, np.random.default_rng(0))
    assert shards.dtype == np.int64
    assert stats.chisquare(np.bincount(shards, minlength=20)).pvalue > FAILURE


def test_a_record_draws_its_shard_whatever_the_others_drew() -> None:
    """Pairs of neighbours fall on all cells alike; a cut permutation repels them."""
    generator = np.random.default_rng(1)
    tables = np.zeros((3, 3))
    for _ in range(4000):
        shards = assign_shards(6, 3, generator)
        np.add.at(tables, (shards[0], shards[1]), 1)
    assert stats.chisquare(tables.ravel()).pvalue > FAILURE


def test_no_size_is_refused_but_no_teachers() -> None:
    assert assign_shards(0, 3, np.random.default_rng(0)).shape == (0,)
    assert (assign_shards(4, 1, np.random.default_rng(0)) == 0).all()
    with pytest.raises(ValueError, match="'n_teachers' must be at least 1; got 0"):
        assign_shards(4, 0, np.random.default_rng(0))


def test_rows_by_shard_are_a_partition_of_the_usable_rows() -> None:
    generator = np.random.default_rng(2)
    shards = assign_shards(100, 40, generator)
    usable = generator.random(100) < 0.8
    rows = rows_by_shard(shards, usable, 40)
    assert len(rows) == 40
    assert any(len(own) == 0 for own in rows)
    for index, own in enumerate(rows):
        np.testing.assert_array_equal(own, np.flatnonzero(usable & (shards == index)))


def test_streams_of_teachers_differ_and_are_repeatable() -> None:
    first = [teacher_generator(5, index).integers(2**62) for index in range(50)]
    assert len(set(first)) == 50
    assert first == [teacher_generator(5, index).integers(2**62) for index in range(50)]
    assert teacher_generator(6, 0).integers(2**62) != first[0]
