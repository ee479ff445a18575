"""Whole-number Gaussian noise: its law, exactly."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from skfairdp.privacy.mechanisms import integer_noise as module
from skfairdp.privacy.mechanisms.integer_noise import (
    CHUNK,
    KEEP_BITS,
    N_CELLS,
    SCALE_BITS,
    SHIFT,
    RoundedGaussian,
    rounded_gaussian,
)

SIGMA = 2.0**SCALE_BITS


def draw(sampler, size, words):
    numbers = np.zeros(size, dtype=np.int64)
    sampler.add_to(numbers, words)
    return numbers


def random_words(seed: int):
    return np.random.SFC64(seed).random_raw


@pytest.fixture
def small(monkeypatch):
    """A sampler so small that every slot and position can be read: sigma 4096, up to 4 sigma."""
    sizes = {"SCALE_BITS": 12, "CELL_BITS": 1, "SHIFT": 11, "N_CELLS": 8, "SLOT_BITS": 7}
    for name, size in sizes.items():
        monkeypatch.setattr(module, name, size)
    return RoundedGaussian()


def law(sampler: RoundedGaussian) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and their chances from one word: all slots, all positions, all first bits.

    First bits below a limit keep the number. From there on a uniform number decides, which is
    below the chance with the part of the first bits that the limit leaves of it.
    """
    slots, positions = np.meshgrid(np.arange(128), np.arange(2048), indexing="ij")
    word = (slots.ravel() << 57) | (positions.ravel() << KEEP_BITS)
    place = sampler._places[slots.ravel()]
    cell = place.astype(np.int64) - 8
    values, _ = sampler.propose(word.astype(np.uint64), random_words(0))
    surely = sampler._surely[place] / 2**KEEP_BITS
    kept = np.maximum(sampler.chance(values, cell), surely)
    held = cell < 8  # slots of no cell
    chances = np.bincount(values[held] + 2**14, kept[held], 2**15) / len(word)
    return np.arange(-(2**14), 2**14), chances


def worst_ratio(sampler: RoundedGaussian) -> float:
    numbers, chances = law(sampler)
    exact = ndtr((numbers + 0.5) / 4096) - ndtr((numbers - 0.5) / 4096)
    # From the side where the tail is small, so that it keeps its digits.
    mirrored = ndtr((0.5 - numbers) / 4096) - ndtr((-numbers - 0.5) / 4096)
    exact = np.where(numbers < 0, exact, mirrored)
    return float(np.abs(chances / chances.sum() / (exact / exact.sum()) - 1.0).max())


def test_all_words_together_have_the_exact_law(small):
    # The density stands for its mean over a step, which differs by up to 4e-8 at this scale.
    assert worst_ratio(small) < 1e-7


@pytest.mark.parametrize("broken", ["surely", "mirrored", "weights"])
def test_a_wrong_table_is_seen(small, broken):
    if broken == "surely":
        small._surely[8:12] += 2000
    elif broken == "mirrored":
        small._places = np.where(small._places < 8, 15 - small._places, small._places)
    else:
        small._chances = small._chances[::-1].copy()
    assert worst_ratio(small) > 1e-3


def test_chances_are_those_of_the_integral_and_never_above_one():
    sampler = rounded_gaussian()
    assert 2 * sum(sampler.weights) <= len(sampler._places)
    for cell in (0, 1, 7, 32, 150, 400, N_CELLS - 1):
        start, end = cell << SHIFT, (cell + 1) << SHIFT
        for number, owner in ((start, cell), (end - 1, cell), (~start, ~cell), (-end, ~cell)):
            found = float(sampler.chance(np.array([number]), np.array([owner]))[0])
            with mp.workprec(1200):
                exact = sampler._integral(number) * sampler.unit / sampler.weights[cell]
                assert abs(found / exact - 1) < 1e-13
                assert sampler._surely[owner + N_CELLS] / 2**KEEP_BITS <= exact <= 1
    none = sampler.chance(np.array([0]), np.array([N_CELLS]))
    assert (none[0], sampler._surely[-1]) == (0.0, 0)


def test_the_integral_is_that_of_the_density():
    value = 12_345_678_901
    with mp.workdps(60):
        density = lambda x: mp.exp(-((x / mp.mpf(2) ** SCALE_BITS) ** 2) / 2)  # noqa: E731
        exact = mp.quad(density, [value - mp.mpf(0.5), value + mp.mpf(0.5)])
        assert abs(rounded_gaussian()._integral(value) / exact - 1) < 1e-40


def test_digits_decide_as_floats_do(monkeypatch):
    """All decisions that are left to digits, where only those too near are otherwise."""
    usual = draw(rounded_gaussian(), 10_000, random_words(3))
    monkeypatch.setattr(module, "NEAR", 1e9)
    assert np.array_equal(draw(rounded_gaussian(), 10_000, random_words(3)), usual)


@pytest.mark.parametrize(("side", "kept"), [(-2, True), (2, False)])
def test_a_tie_is_broken_by_more_bits(side, kept):
    sampler = rounded_gaussian()
    value, cell = 3 << SHIFT, 3
    known = KEEP_BITS + 64
    with mp.workprec(1200):
        limit = sampler._integral(value) * sampler.unit / sampler.weights[cell] * 2**known
        bits = int(mp.floor(limit))
        nearer = int(mp.floor((limit - bits) * 2**64)) + side
    asked = []

    def words(n):
        asked.append(n)
        return np.array([nearer], dtype=np.uint64)

    assert sampler._decide_exactly(value, cell, bits, words) == kept
    assert asked == [1]


def test_a_million_draws_are_gaussian():
    """Each of the tests falsely fails once in a million seeds."""
    drawn = draw(rounded_gaussian(), 1_000_000, random_words(0))
    z = (drawn + np.random.default_rng(0).uniform(-0.5, 0.5, len(drawn))) / SIGMA
    assert stats.kstest(z, stats.norm.cdf).pvalue > 1e-6
    for low in (0, 8, 16, 24):
        counts = np.bincount((drawn >> low) & 255, minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-6
    edges = np.concatenate([[-np.inf], np.linspace(-4, 4, 257), [np.inf]])
    expected = np.diff(ndtr(edges)) * len(z)
    assert stats.chisquare(np.histogram(z, edges)[0], expected).pvalue > 1e-6


@pytest.mark.parametrize("size", [0, 1, 7, CHUNK, 2 * CHUNK + 5])
def test_any_number_is_drawn(size):
    drawn = draw(rounded_gaussian(), size, random_words(1))
    assert drawn.shape == (size,)
    assert len(set(drawn.tolist())) == size


def test_rejected_numbers_are_replaced_however_many(small):
    """A sampler that rejects a third, with the same few spares."""
    drawn = draw(small, 60_000, random_words(2))
    assert stats.kstest(drawn / 4096, stats.truncnorm(-4, 4).cdf).pvalue > 1e-6


def test_noise_is_added_to_whole_numbers_exactly():
    whole = np.array([0.0, -(2.0**52), 2.0**51 + 1.0])
    drawn = draw(rounded_gaussian(), 3, random_words(4))
    added = whole.copy()
    rounded_gaussian().add_to(added, random_words(4))
    assert [int(a) for a in added] == [int(w) + int(d) for w, d in zip(whole, drawn, strict=True)]
