"""Public sizes and plans for which nothing is proved are refused."""

from __future__ import annotations

from typing import Any

import pytest

from skfairdp.privacy.plan import LEAST_MULTIPLIER, MOST_NUMBERS, Plan
from skfairdp.privacy.sizes import Sizes, check_group_sizes, expected_batch_size, steps_for

SIZES = Sizes(("a", "b"), (600, 400), "add-remove")


def planned(multiplier: float, *, exact_noise: bool = True) -> Plan:
    batches = SIZES.batches(2, 100, ("gradient", 1.0, multiplier))
    return SIZES.plan(batches, delta=1e-6, exact_noise=exact_noise)


def test_exact_noise_is_refused_for_more_numbers_than_its_proof_covers() -> None:
    half = MOST_NUMBERS // 2
    planned(1.0).check_exact_noise(half - 2**16)
    with pytest.raises(ValueError, match="is proved for steps of up to 16,777,216 numbers"):
        planned(1.0).check_exact_noise(half)
    planned(1.0, exact_noise=False).check_exact_noise(MOST_NUMBERS)
    planned(0.0).check_exact_noise(MOST_NUMBERS)  # a run without noise, which protects nothing


def test_exact_noise_is_refused_for_less_noise_than_its_proof_covers() -> None:
    planned(LEAST_MULTIPLIER).check_exact_noise(10)
    with pytest.raises(ValueError, match="proved for noise multipliers from 0.25; got 0.2"):
        planned(0.99 * LEAST_MULTIPLIER).check_exact_noise(10)


def test_steps_and_batches_are_counted_in_whole_numbers() -> None:
    assert steps_for(3, 1000, 300) == 12
    assert (expected_batch_size("auto", 45), expected_batch_size("auto", 10**6)) == (5, 256)
    assert expected_batch_size(1000, 1000) == 1000
    with pytest.raises(ValueError, match="'batch_size' must be at most the number of records"):
        expected_batch_size(1001, 1000)
    with pytest.raises(ValueError, match="are 2e\\+08|are 200000000 steps"):
        steps_for(2, 10**8, 1)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({}, "at least one group; got an empty mapping"),
        ({"a": 10, None: 5}, "names a missing value, None"),
        ({"a": 0}, "must map every group to"),
        ({"a": 2.5}, "got 2.5 for the group 'a'"),
    ],
)
def test_declared_sizes_that_are_none_are_refused(sizes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_group_sizes(sizes)
