"""Tests of noise: distribution, independence, and that none is repeated by accident.

Tolerances hold with probability 1 - 1e-9 a test: six standard errors.
"""

from __future__ import annotations

import copy
import math
import pickle
import random

import numpy as np
import pytest
from scipy import stats

from skfairdp.privacy import NoiseSource, streams

SIX = 6.0


def test_gaussian_noise_has_its_moments():
    n, std = 400_000, 2.5
    noise = NoiseSource().gaussian(n, std)
    assert noise.dtype == np.float64
    assert abs(noise.mean()) < SIX * std / math.sqrt(n)
    assert abs(noise.var() / std**2 - 1) < SIX * math.sqrt(2 / n)
    assert abs((noise**4).mean() / std**4 - 3) < SIX * math.sqrt(96 / n)


def test_gaussian_noise_is_gaussian():
    assert stats.kstest(NoiseSource().gaussian(50_000, 3.0) / 3.0, "norm").pvalue > 1e-9


@pytest.mark.parametrize("times", [1.0, 0.25])
@pytest.mark.parametrize("exact", [True, False])
def test_sums_get_noise_of_the_deviation_that_is_asked_for(exact, times):
    """A quarter of it is seen: with a chance of all but 1e-9, like the absence of a mistake."""
    n, std = 20_000, 2.5
    noise = NoiseSource().noisy(np.full(n, 7.0), times * std, exact=exact) - 7.0
    assert abs(noise.mean()) < SIX * std / math.sqrt(n)
    assert (abs(noise.var() / std**2 - 1) < SIX * math.sqrt(2 / n)) == (times == 1.0)


def test_gaussian_noise_fills_the_given_array():
    out = np.zeros((3, 4))
    assert NoiseSource().gaussian((3, 4), 1.0, out=out) is out
    assert np.all(out != 0)


@pytest.mark.parametrize("out", [np.zeros(3), np.zeros((3, 4), dtype=np.float32)])
def test_an_unfit_array_is_refused(out):
    with pytest.raises(ValueError, match="out has shape"):
        NoiseSource().gaussian((3, 4), 1.0, out=out)


@pytest.mark.parametrize("std", [-1.0, math.inf, math.nan])
def test_an_impossible_deviation_is_refused(std):
    with pytest.raises(ValueError, match="std="):
        NoiseSource().gaussian(2, std)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 4.0])
def test_discrete_laplace_noise_follows_its_law(epsilon):
    n = 200_000
    noise = NoiseSource().discrete_laplace(epsilon, n)
    assert noise.dtype == np.int64
    top = max(1, round(3 / epsilon))
    inner = np.arange(-top, top + 1)
    mass = np.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(inner))
    expected = np.append(mass, 1 - mass.sum()) * n
    observed = np.array([*(np.count_nonzero(noise == k) for k in inner), 0])
    observed[-1] = n - observed.sum()
    assert stats.chisquare(observed, expected).pvalue > 1e-9


def test_discrete_laplace_tails_are_not_cut():
    """P(|k| >= t) = 2 e^(-t eps) / (1 + e^-eps); 200 such draws are expected here."""
    epsilon, n, expected = 1.0, 400_000, 200
    t = math.floor(math.log(2 * n / (expected * (1 + math.exp(-epsilon)))) / epsilon)
    probability = 2 * math.exp(-t * epsilon) / (1 + math.exp(-epsilon))
    far = np.count_nonzero(np.abs(NoiseSource().discrete_laplace(epsilon, n)) >= t)
    assert abs(far - n * probability) < SIX * math.sqrt(n * probability)


def test_large_epsilon_draws_zeros_and_small_epsilon_draws_large_numbers():
    assert not NoiseSource().discrete_laplace(100.0, 1000).any()
    assert np.abs(NoiseSource().discrete_laplace(1e-6, 1000)).max() > 1e5


def test_discrete_laplace_takes_shapes():
    assert NoiseSource().discrete_laplace(1.0, (2, 3)).shape == (2, 3)
    assert NoiseSource().discrete_laplace(1.0, 0).shape == (0,)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_impossible_count_epsilon_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon="):
        NoiseSource().discrete_laplace(epsilon, 1)


def test_two_sources_share_nothing():
    n = 100_000
    first, second = NoiseSource(), NoiseSource()
    a, b = first.gaussian(n, 1.0), second.gaussian(n, 1.0)
    assert not np.intersect1d(a, b).size
    assert abs(np.corrcoef(a, b)[0, 1]) < SIX / math.sqrt(n)


@pytest.mark.parametrize("seed", [None, 0])
def test_batches_masks_and_noise_are_independent(seed):
    n = 100_000
    source = NoiseSource(seed)
    drawn = np.stack(
        [source.gaussian(n, 1.0), *(g.standard_normal(n) for g in (source.sampling, source.masks))]
    )
    assert len(np.unique(drawn)) == drawn.size
    assert np.abs(np.corrcoef(drawn)[np.triu_indices(3, 1)]).max() < SIX / math.sqrt(n)


def test_drawing_batches_does_not_move_the_noise():
    one, two = NoiseSource(3), NoiseSource(3)
    two.sampling.random(10)
    two.masks.random(10)
    assert np.array_equal(one.gaussian(5, 1.0), two.gaussian(5, 1.0))


def test_global_generators_are_neither_read_nor_moved():
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    first = NoiseSource().gaussian(10, 1.0)
    NoiseSource().discrete_laplace(1.0, 10)
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    assert not np.array_equal(first, NoiseSource().gaussian(10, 1.0))
    assert np.array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
    assert before[1] == random.getstate()


def test_a_seed_makes_everything_reproducible_and_says_so():
    one, two = NoiseSource(7), NoiseSource(7)
    assert np.array_equal(one.gaussian(9, 2.0), two.gaussian(9, 2.0))
    assert np.array_equal(one.discrete_laplace(0.3, 9), two.discrete_laplace(0.3, 9))
    assert np.array_equal(one.sampling.random(9), two.sampling.random(9))
    assert np.array_equal(one.masks.random(9), two.masks.random(9))
    assert one.reproducible
    assert "not private" in one.name
    assert not NoiseSource().reproducible
    assert "from the operating system" in NoiseSource().name


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="generator_seed=-1"):
        NoiseSource(-1)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_source_cannot_be_duplicated(duplicate):
    with pytest.raises(TypeError, match="repeat its noise"):
        duplicate(NoiseSource())


def test_the_state_is_not_printed():
    assert "AES-128" in repr(NoiseSource())
    assert "7" not in repr(NoiseSource(7))


def test_a_published_key_says_nothing_about_the_generators():
    one, two = NoiseSource(5), NoiseSource(5)
    assert len(one.key()) == 32
    one.key()
    assert one.sampling.random() == two.sampling.random()
    assert np.array_equal(one.gaussian(3, 1.0), two.gaussian(3, 1.0))
    assert one.key() == two.key()
    assert NoiseSource().key() != NoiseSource().key()


def test_a_stream_with_a_new_key_repeats_nothing():
    """As in the child of a fork, whose keys are drawn anew."""
    source = NoiseSource()
    counter = source.sampling.bit_generator
    known = streams._SECRET
    assert counter in known
    counter.rekey()
    before = counter.random_raw(4)
    streams._rekey_all()
    assert not np.isin(counter.random_raw(4), before).any()
