"""Whole-number Gaussian noise: its law, exactly, and what a release of it shows."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from skfairdp.privacy import rounded_gaussian as module
from skfairdp.privacy.rounded_gaussian import RoundedGaussian, rounded_gaussian

# Small enough to read every word there is: 64 slots, 1 sign, 8 positions, 16 first bits.
SMALL = {"scale_bits": 4, "cell_bits": 1, "n_cells": 8, "slot_bits": 6, "word_bits": 14}


def random_words(seed: int):
    return np.random.SFC64(seed).random_raw


def exact_mass(value: int, scale_bits: int) -> mp.mpf:
    """Probability of a number, but for the normalisation: an integral, in 60 digits."""
    with mp.workdps(60):
        sigma = mp.mpf(2) ** scale_bits
        return mp.quad(lambda x: mp.exp(-((x / sigma) ** 2) / 2), [value - 0.5, value + 0.5])


def law_over_all_words(sampler: RoundedGaussian) -> dict[int, float]:
    """Chance of each number from one word, by reading each word once.

    A word that decides keeps its number or not. One that leaves the decision open keeps it with
    the part of its interval of uniform numbers that lies below the chance; one that leaves the
    cell open stands for all numbers of the cell that it chooses.
    """
    keep = 1 << sampler.keep_bits
    words = np.arange(1 << sampler.word_bits, dtype=np.uint64)
    slots = words >> np.uint64(sampler.word_bits - sampler.slot_bits)
    cells = sampler._cells[slots]
    bits = words.view(np.int64)
    values, first = sampler._numbers(cells, bits), sampler._first_bits(bits)
    sure = first < sampler._surely[slots]
    law: dict[int, float] = defaultdict(float)
    for word, cell, value, start, kept in zip(words, cells, values, first, sure, strict=True):
        if kept:
            law[int(value)] += 1.0
        elif cell < len(sampler.weights):
            chance = float(sampler.chance(np.array([value]), np.array([cell]))[0])
            law[int(value)] += min(max(chance * keep - start, 0.0), 1.0)
        else:
            place = word - sampler._open
            chosen = int(np.searchsorted(sampler._left, place, side="right"))
            if chosen == len(sampler.weights):
                continue  # a unit of no cell
            for j in range(chosen << sampler.shift, (chosen + 1) << sampler.shift):
                for number in (j, ~j):
                    chance = float(sampler.chance(np.array([number]), np.array([chosen]))[0])
                    law[number] += chance / (2 << sampler.shift)
    return law


def worst_ratio(law: dict[int, float], scale_bits: int) -> float:
    masses = {value: float(exact_mass(value, scale_bits)) for value in law}
    total, mass = math.fsum(law.values()), math.fsum(masses.values())
    return max(abs(law[v] / total / (masses[v] / mass) - 1.0) for v in law)


def test_every_word_together_give_the_exact_law():
    sampler = RoundedGaussian(**SMALL)
    law = law_over_all_words(sampler)
    assert set(law) == set(range(-64, 64))
    # 4 digits of a density that changes by 2**-8 over a step: its fourth power is left out.
    assert worst_ratio(law, 4) < 2e-5
    assert sum(law.values()) / 2**14 > 0.7


@pytest.mark.parametrize("broken", ["sure", "sign", "open"])
def test_a_wrong_table_is_seen(broken):
    sampler = RoundedGaussian(**SMALL)
    if broken == "sure":
        sampler._surely[:] = np.minimum(sampler._surely + 2, 16)
    elif broken == "sign":
        sampler._numbers = lambda cell, bits: np.abs(RoundedGaussian._numbers(sampler, cell, bits))
    else:
        sampler._left = sampler._left // np.uint64(2)
    assert worst_ratio(law_over_all_words(sampler), 4) > 1e-3


def test_weights_are_above_every_number_of_their_cells():
    sampler = rounded_gaussian()
    assert sum(sampler.weights) <= 2**64
    assert sum(sampler.weights) > 2**64 - 2**16
    with mp.workdps(60):
        for cell in (0, 1, 7, 64, 300, 700, 2047):
            values = np.array([cell << 34, ((cell + 1) << 34) - 1])
            numbers = [*values, *~values]
            cells = np.full(4, cell)
            for number, chance in zip(
                numbers, sampler.chance(np.array(numbers), cells), strict=True
            ):
                # The density varies over a grid step by a part in 2**40 of itself at most.
                z = mp.mpf(int(number)) / 2**40
                exact = mp.exp(-(z**2) / 2) * sampler.unit / sampler.weights[cell]
                assert abs(mp.mpf(float(chance)) / exact - 1) < 1e-13
                assert chance <= 1.0 + 1e-15
                if cell in sampler._cells:
                    kept = sampler._surely[np.argmax(sampler._cells == cell)] / 2**13
                    assert 0.9 * chance < kept <= chance


def test_the_digits_decide_as_the_floats_do(monkeypatch):
    """All decisions that are left to digits, where only those too near are otherwise."""
    sampler = rounded_gaussian()
    usual = sampler.draw(20_000, random_words(3))
    monkeypatch.setattr(module, "NEAR", 1e9)
    assert np.array_equal(sampler.draw(20_000, random_words(3)), usual)


@pytest.mark.parametrize(("side", "kept"), [(-1, True), (1, False)])
def test_a_tie_is_broken_by_more_bits(side, kept):
    sampler = rounded_gaussian()
    value, cell = 3 << 34, 3
    with mp.workprec(400):
        limit = sampler._integral(value) * sampler.unit / sampler.weights[cell]
        known = sampler.keep_bits + sampler.word_bits
        bits = int(mp.floor(limit * 2**known))
        nearer = int(mp.floor((limit * 2**known - bits) * 2**64)) + side
    asked = []

    def words(n):
        asked.append(n)
        return np.array([nearer], dtype=np.uint64)

    assert sampler._exactly(value, cell, bits, words) == kept
    assert asked == [1]


def test_a_million_draws_are_gaussian():
    """Kolmogorov-Smirnov, and the low bits: each falsely fails once in a million runs."""
    drawn = rounded_gaussian().draw(1_000_000, random_words(0))
    z = (drawn + np.random.default_rng(0).uniform(-0.5, 0.5, len(drawn))) * 2.0**-40
    assert stats.kstest(z, stats.norm.cdf).pvalue > 1e-6
    assert stats.chisquare(np.bincount(drawn & 255, minlength=256)).pvalue > 1e-6
    assert stats.chisquare(np.bincount((drawn >> 26) & 255, minlength=256)).pvalue > 1e-6
    edges = np.concatenate([[-np.inf], np.linspace(-4.5, 4.5, 289), [np.inf]])
    expected = np.diff(stats.norm.cdf(edges)) * len(z)
    found = np.histogram(z, edges)[0]
    assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-6


@pytest.mark.parametrize("size", [0, 1, 7, 16_384, 40_000])
def test_any_number_is_drawn_and_rejected_ones_are_replaced(size):
    drawn = rounded_gaussian().draw(size, random_words(1))
    assert drawn.shape == (size,)
    assert len(set(drawn.tolist())) == size


def test_too_few_spares_lead_to_another_draw():
    """A sampler that rejects a third: the places are filled all the same."""
    sampler = RoundedGaussian(**SMALL)
    raw = random_words(2)
    drawn = sampler.draw(50_000, lambda n: raw(n) >> np.uint64(50))
    masses = [float(exact_mass(value, 4)) for value in range(-64, 64)]
    expected = np.array(masses) / sum(masses) * len(drawn)
    found = np.bincount(drawn + 64, minlength=128)
    likely = expected > 10
    scaled = expected[likely] * found[likely].sum() / expected[likely].sum()
    assert stats.chisquare(found[likely], scaled).pvalue > 1e-6


def test_the_step_of_the_density_is_the_integral():
    value, sampler = 5, RoundedGaussian(**SMALL)
    with mp.workdps(40):
        assert abs(sampler._integral(value) / exact_mass(value, 4) - 1) < 1e-30
    assert Fraction(sampler.unit) > 0
