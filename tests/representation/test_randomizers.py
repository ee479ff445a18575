"""Randomisers: their law, the ratio that they promise, and what they refuse.

Statistical tolerances hold with probability 1 - 1e-9 a test.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from skfairdp.privacy import NoiseSource
from skfairdp.privacy.mechanisms.integer_noise import RESOLUTION
from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse
from skfairdp.representation import LaplaceRandomizer, ResponseRandomizer
from skfairdp.representation.objective import LaplaceChannel, ResponseChannel


def corners_and_more(bound: float, n_components: int) -> np.ndarray:
    """Corners of the cube, its centre, and points between."""
    ticks = np.linspace(-bound, bound, 5)
    return np.array(list(itertools.product(ticks, repeat=n_components)))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 5.0, 8.0, 100.0, 1000.0])
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_laplace_density_ratio_never_exceeds_epsilon(epsilon, n_components):
    randomizer = LaplaceRandomizer(epsilon, n_components, 0.5)
    hidden = corners_and_more(0.5, n_components)
    seen = np.concatenate([4 * hidden, hidden, randomizer.release(hidden, NoiseSource())])
    log_density = randomizer.log_density(seen, hidden)
    ratio = (log_density.max(axis=1) - log_density.min(axis=1)).max()
    assert ratio <= epsilon * (1 + 1e-9)
    assert ratio >= 0.99 * epsilon  # two opposite corners nearly use it up


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 7.0, 999.9])
@pytest.mark.parametrize("n_components", [1, 3, 7, 100])
def test_laplace_cost_is_at_most_epsilon_in_exact_arithmetic(epsilon, n_components):
    randomizer = LaplaceRandomizer(epsilon, n_components, 0.3)
    rate = randomizer._units / RESOLUTION
    assert math.floor(rate * RESOLUTION) == randomizer._units  # what the sampler makes of it
    ends = randomizer.snapped(np.array([[-0.3] * n_components, [0.3] * n_components]))
    moved = int(np.abs(ends[0] - ends[1]).sum())
    assert moved == n_components * randomizer._steps
    assert Fraction(randomizer._units, RESOLUTION) * moved <= Fraction(epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 1e-18, 0.1, 1.0, 5.0])
@pytest.mark.parametrize(("n_components", "n_values"), [(1, 2), (2, 3), (3, 5), (2, 1)])
def test_response_probability_ratio_never_exceeds_epsilon(epsilon, n_components, n_values):
    randomizer = ResponseRandomizer(epsilon, n_components, n_values)
    codes = np.array(list(itertools.product(range(n_values), repeat=n_components)))
    law = randomizer.log_density(codes, codes)
    assert np.allclose(np.exp(law).sum(axis=0), 1.0, rtol=1e-12)
    assert np.ptp(law, axis=1).max() <= epsilon * (1 + 1e-12)
    if n_values > 1 and epsilon >= 0.1:
        assert np.ptp(law, axis=1).max() == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.0, 5.3, 40.0])
@pytest.mark.parametrize(("n_components", "n_values"), [(1, 2), (3, 7), (10, 1000)])
def test_response_cost_is_at_most_epsilon_in_exact_arithmetic(epsilon, n_components, n_values):
    response = ResponseRandomizer(epsilon, n_components, n_values)._response
    assert Fraction(response.epsilon) * n_components <= Fraction(epsilon)
    # RandomizedResponse's own tests show that keep / change <= exp(its epsilon).
    assert response.spent * n_components <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 60.0])
def test_laplace_releases_follow_the_laplace_law(epsilon):
    randomizer = LaplaceRandomizer(epsilon, 2, 0.5)
    hidden = np.tile([[0.25, -0.5]], (50_000, 1))
    released = randomizer.release(hidden, NoiseSource())
    noise = (released - hidden) / randomizer.scale
    # A grid step is at most 1/2048 of the scale: spreading it evenly gives a smooth law.
    step = randomizer._step / randomizer.scale
    assert step <= 1 / 2048
    noise += np.random.default_rng(0).uniform(-step / 2, step / 2, noise.shape)
    for column in noise.T:
        assert stats.kstest(column, "laplace").pvalue > 1e-9
    assert abs(np.corrcoef(noise.T)[0, 1]) < 6.5 / math.sqrt(len(noise))


def test_laplace_releases_lie_on_a_public_grid():
    randomizer = LaplaceRandomizer(1.0, 2, 0.3)
    first, second = (
        randomizer.release(np.full((500, 2), at), NoiseSource()) for at in (0.1, -0.29999)
    )
    for released in (first, second):
        steps = np.rint(released / randomizer._step)
        assert np.array_equal(steps * randomizer._step, released)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e308, -1e308, 0.5000001])
def test_what_lies_outside_the_cube_is_truncated(value):
    randomizer = LaplaceRandomizer(2.0, 1, 0.5)
    inside = {math.nan: 0.0}.get(value, math.copysign(0.5, value))
    inside = 0.0 if math.isnan(value) else inside
    one, two = (randomizer.release(np.array([[at]]), NoiseSource(3)) for at in (value, inside))
    assert np.array_equal(one, two)
    assert np.array_equal(randomizer.truncate([[value]]), [[inside]])


@pytest.mark.parametrize(("n_components", "n_values"), [(1, 2), (2, 3), (1, 5)])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 4.0])
def test_response_releases_follow_their_law(epsilon, n_components, n_values):
    randomizer, n = ResponseRandomizer(epsilon, n_components, n_values), 40_000
    hidden = np.array([[n_values - 1] * n_components])
    seen = np.array(list(itertools.product(range(n_values), repeat=n_components)))
    released = randomizer.release(np.repeat(hidden, n, axis=0), NoiseSource())
    counts = (released[:, None, :] == seen[None]).all(axis=2).sum(axis=0)
    expected = np.exp(randomizer.log_density(seen, hidden))[:, 0] * n
    assert stats.chisquare(counts, expected).pvalue > 1e-9


def test_response_at_zero_epsilon_shows_nothing_and_laplace_refuses():
    randomizer = ResponseRandomizer(0.0, 2, 4)
    assert np.ptp(randomizer.log_density([[0, 1]], [[0, 1], [3, 2]])) == 0.0
    same = [randomizer.release(np.full((50, 2), code), NoiseSource(1)) for code in (0, 3)]
    assert np.array_equal(*same)
    with pytest.raises(ValueError, match=r"epsilon=0.*randomised response"):
        LaplaceRandomizer(0.0, 2, 0.5)


def test_one_value_needs_no_noise():
    codes = np.zeros((5, 3), dtype=np.int64)
    assert np.array_equal(ResponseRandomizer(1.0, 3, 1).release(codes, NoiseSource()), codes)


def test_infinite_epsilon_releases_what_is_hidden():
    values = np.array([[0.1, 9.0]])
    laplace = LaplaceRandomizer(math.inf, 2, 0.5)
    assert np.array_equal(laplace.release(values, NoiseSource()), [[0.1, 0.5]])
    assert laplace.event is None
    codes = np.array([[3, 1]])
    response = ResponseRandomizer(math.inf, 2, 4)
    assert np.array_equal(response.release(codes, NoiseSource()), codes)
    assert response.log_density(codes, [[3, 1], [3, 2]]).tolist() == [[0.0, -math.inf]]


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, "1", True])
def test_a_senseless_epsilon_is_refused(epsilon):
    for make in (
        lambda: LaplaceRandomizer(epsilon, 2, 0.5),
        lambda: ResponseRandomizer(epsilon, 2, 4),
    ):
        with pytest.raises(ValueError, match="epsilon="):
            make()


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_senseless_counts_are_refused(count):
    with pytest.raises(ValueError, match="n_components="):
        LaplaceRandomizer(1.0, count, 0.5)
    with pytest.raises(ValueError, match="n_components="):
        ResponseRandomizer(1.0, count, 4)
    with pytest.raises(ValueError, match="n_values="):
        ResponseRandomizer(1.0, 2, count)


@pytest.mark.parametrize("bound", [0.0, -0.5, math.inf, math.nan])
def test_a_senseless_bound_is_refused(bound):
    with pytest.raises(ValueError, match="bound="):
        LaplaceRandomizer(1.0, 2, bound)


def test_an_epsilon_that_the_exact_sampler_cannot_follow_is_refused():
    with pytest.raises(ValueError, match="too small"):
        LaplaceRandomizer(1e-9, 2, 0.5)
    LaplaceRandomizer(1e-6, 2, 0.5).release(np.zeros((3, 2)), NoiseSource())


def test_rows_of_another_shape_or_kind_are_refused():
    with pytest.raises(ValueError, match="values has shape"):
        LaplaceRandomizer(1.0, 2, 0.5).release(np.zeros((3, 1)), NoiseSource())
    response = ResponseRandomizer(1.0, 2, 4)
    for codes, said in (
        (np.zeros((3, 3), dtype=int), "codes has shape"),
        (np.zeros((3, 2)), "codes has dtype"),
        (np.full((3, 2), 4), "outside 0 .. 3"),
        (np.full((3, 2), -1), "outside 0 .. 3"),
    ):
        with pytest.raises(ValueError, match=said):
            response.release(codes, NoiseSource())


def test_empty_tables_stay_empty():
    assert LaplaceRandomizer(1.0, 2, 0.5).release(np.zeros((0, 2)), NoiseSource()).shape == (0, 2)
    codes = np.zeros((0, 2), dtype=np.int64)
    assert ResponseRandomizer(1.0, 2, 4).release(codes, NoiseSource()).shape == (0, 2)


def test_training_noise_has_the_law_of_the_releases():
    generator, n = torch.Generator().manual_seed(0), 40_000
    laplace = LaplaceRandomizer(4.0, 1, 0.5)
    hidden = torch.zeros((n, 1), requires_grad=True)
    noisy = LaplaceChannel(laplace)
    noisy.generator = generator
    seen, _ = noisy(hidden, 1)
    assert stats.kstest(seen.detach().numpy()[:, 0] / laplace.scale, "laplace").pvalue > 1e-9
    seen.sum().backward()
    assert torch.equal(hidden.grad, torch.full_like(hidden, 0.5))  # of the truncation alone
    response = ResponseRandomizer(1.0, 1, 3)
    answering = ResponseChannel(response, 0.5, 0.25)
    answering.generator = generator
    codes = answering._answered(torch.full((n, 1), 2))
    expected = np.exp(response.log_density([[0], [1], [2]], [[2]]))[:, 0] * n
    assert stats.chisquare(np.bincount(codes[:, 0], minlength=3), expected).pvalue > 1e-9


def test_a_broken_share_of_epsilon_would_be_seen(monkeypatch):
    """The ratio test is not vacuous: a share of epsilon/1 for two codes doubles the ratio."""
    randomizer = ResponseRandomizer(1.0, 2, 3)
    vars(randomizer)["_response"] = RandomizedResponse(1.0, 3)
    codes = np.array(list(itertools.product(range(3), repeat=2)))
    assert np.ptp(randomizer.log_density(codes, codes), axis=1).max() > 1.5
