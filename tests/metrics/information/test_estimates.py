"""Estimates of mutual information against cases that are known.

Every tolerance on a mean over repetitions is six standard errors of that mean plus a stated bias:
a false alarm has a probability below 1e-8.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skfairdp.metrics import mine, mutual_information, nearest_neighbours, plug_in

from .cases import gaussian_pair, noisy_channel, shifted_normals

REPETITIONS = 40


def mean_and_error(estimate):
    values = [estimate(np.random.default_rng(seed)) for seed in range(REPETITIONS)]
    return np.mean(values), np.std(values, ddof=1) / math.sqrt(REPETITIONS)


@pytest.mark.parametrize(("flip", "n_values"), [(0.0, 2), (0.1, 2), (0.3, 5), (0.8, 5)])
def test_plug_in_finds_the_information_of_a_channel(flip, n_values):
    truth = noisy_channel(1, flip, n_values, np.random.default_rng(0))[2]

    def estimate(rng):
        z, s, _ = noisy_channel(2_000, flip, n_values, rng)
        return plug_in(z, s).unclipped

    mean, error = mean_and_error(estimate)
    # What Miller and Madow leave over is of order 1/n^2.
    assert abs(mean - truth) <= 6 * error + 1e-3


def test_miller_and_madow_remove_the_bias_of_independent_variables():
    """8 x 2 cells and 300 rows: 7/600 = .0117 nats of bias, and nearly none after correction."""

    def estimates(rng):
        return rng.integers(0, 8, 300), rng.integers(0, 2, 300)

    raw, raw_error = mean_and_error(
        lambda rng: plug_in(*estimates(rng), miller_madow=False).unclipped
    )
    corrected, error = mean_and_error(lambda rng: plug_in(*estimates(rng)).unclipped)
    assert abs(raw - 7 / 600) <= 6 * raw_error
    assert raw > 6 * raw_error
    assert abs(corrected) <= 6 * error


def test_plug_in_takes_labels_of_any_kind_and_several_columns():
    s = np.array(["a", "b"] * 200, dtype=object)
    table = pd.DataFrame({"x": np.tile([0, 0, 1, 1], 100), "y": np.tile([0, 1, 1, 0], 100)})
    # Neither column alone tells s, both together do.
    assert plug_in(table["x"], s, miller_madow=False).value == pytest.approx(0.0)
    assert plug_in(table, s, units="bits", miller_madow=False).value == pytest.approx(1.0)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.8])
def test_neighbours_find_the_information_of_a_gaussian_pair(correlation):
    truth = gaussian_pair(1, correlation, np.random.default_rng(0))[2]

    def estimate(rng):
        left, right, _ = gaussian_pair(600, correlation, rng)
        return nearest_neighbours(left, right, continuous_s=True).unclipped

    mean, error = mean_and_error(estimate)
    assert abs(mean - truth) <= 6 * error + 0.01


@pytest.mark.parametrize(
    ("shift", "n_noise"),
    [
        (0.0, 0),
        (1.0, 0),
        pytest.param(3.0, 0, marks=pytest.mark.slow),
        pytest.param(1.0, 1, marks=pytest.mark.slow),
    ],
)
def test_neighbours_find_the_information_of_a_mixture(shift, n_noise):
    truth = shifted_normals(1, shift, np.random.default_rng(0))[2]

    def estimate(rng):
        z, s, _ = shifted_normals(600, shift, rng, n_noise)
        return nearest_neighbours(z, s).unclipped

    mean, error = mean_and_error(estimate)
    assert abs(mean - truth) <= 6 * error + 0.015


def test_neighbours_bear_atoms_and_copies():
    """Half of the rows sit on the ends of a truncation, as an encoder's may."""
    rng = np.random.default_rng(3)
    z, s, _ = shifted_normals(4_000, 1.5, rng)
    truncated = np.clip(z, 0.0, 1.5)
    left = np.digitize(truncated[:, 0], np.r_[1e-9, np.linspace(0.1, 1.4, 14), 1.5])
    table = plug_in(left, s).value
    # Two estimates on the same rows differ by the table's coarseness and their own spread.
    assert nearest_neighbours(truncated, s, random_state=0).value == pytest.approx(table, abs=0.04)
    assert nearest_neighbours(np.repeat(z, 2, 0), np.repeat(s, 2)).value > 0.0


def test_neighbours_do_not_depend_on_the_scale_of_a_column():
    z, s, _ = shifted_normals(500, 1.0, np.random.default_rng(0), n_noise=1)
    scaled = z * [1e-6, 1e6]
    assert nearest_neighbours(scaled, s, random_state=0).unclipped == pytest.approx(
        nearest_neighbours(z, s, random_state=0).unclipped, abs=1e-6
    )


@pytest.mark.slow
def test_critic_finds_the_information_of_a_mixture():
    """Within .05 nats: the held-out value of 1,200 rows has a standard error of about .012."""
    z, s, truth = shifted_normals(4_000, 1.5, np.random.default_rng(0), n_noise=1)
    result = mine(z, s, iterations=800, random_state=0)
    assert abs(result.value - truth) <= 0.05
    assert "held-out" in result.reason


@pytest.mark.slow
def test_critic_finds_the_information_of_numbers():
    left, right, truth = gaussian_pair(4_000, 0.8, np.random.default_rng(0))
    result = mine(left, right, continuous_s=True, iterations=800, random_state=0)
    assert abs(result.value - truth) <= 0.08


@pytest.mark.slow
def test_critic_that_learns_by_heart_reports_no_information():
    """Held-out rows: 200 rows of noise in 40 columns would show .6 nats on training rows."""
    rng = np.random.default_rng(0)
    result = mine(rng.normal(size=(200, 40)), rng.integers(0, 2, 200), iterations=300)
    assert result.value <= 0.05


@pytest.mark.slow
def test_value_comes_from_the_marked_rows():
    """Rows that are not marked tell s, the marked ones do not, so the value finds nothing."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 400)
    marks = np.arange(400) < 200
    z = np.where(marks, rng.permutation(s), s)[:, None] * 1.0
    assert mine(z, s, iterations=300, held_out=marks, random_state=0).unclipped < 0.0
    assert mine(z, s, iterations=300, held_out=0.5, random_state=0).unclipped > 0.05


def test_critic_repeats_itself_and_leaves_the_global_generator_alone():
    torch = pytest.importorskip("torch")
    z, s, _ = shifted_normals(300, 1.0, np.random.default_rng(0))
    before = torch.random.get_rng_state()
    first = mine(z, s, iterations=20, random_state=7)
    assert first == mine(z, s, iterations=20, random_state=7)
    assert first != mine(z, s, iterations=20, random_state=8)
    assert torch.equal(before, torch.random.get_rng_state())


def test_units_differ_by_log_two():
    z, s, _ = noisy_channel(500, 0.2, 2, np.random.default_rng(0))
    nats = mutual_information(z, s, confidence_level=0.9, random_state=0)
    bits = mutual_information(z, s, confidence_level=0.9, random_state=0, units="bits")
    assert bits.value == pytest.approx(nats.value / math.log(2))
    assert bits.lower_bound == pytest.approx(nats.lower_bound / math.log(2))
    back = bits.to("nats")
    assert back == replace(
        nats, value=back.value, unclipped=back.unclipped, lower_bound=back.lower_bound
    )
    with pytest.raises(ValueError, match="'nats' and 'bits'"):
        bits.to("hartleys")


@pytest.mark.parametrize(
    ("make", "method"),
    [
        (lambda rng: (rng.integers(0, 10, (500, 1)), rng.integers(0, 2, 500)), "plug_in"),
        (lambda rng: (rng.choice(["x", "y"], 500), rng.choice(["f", "m"], 500)), "plug_in"),
        (lambda rng: (rng.normal(size=(500, 2)), rng.integers(0, 2, 500)), "nearest_neighbours"),
        (lambda rng: (rng.normal(size=500), rng.normal(size=500)), "nearest_neighbours"),
        (
            lambda rng: (rng.integers(0, 60, (500, 2)), rng.integers(0, 2, 500)),
            "nearest_neighbours",
        ),
        (lambda rng: (rng.normal(size=(500, 3, 4)), rng.integers(0, 2, 500)), "classifier"),
    ],
)
def test_the_choice_fits_the_rows_and_says_why(make, method):
    result = mutual_information(*make(np.random.default_rng(0)), random_state=0)
    assert result.method == method
    assert len(result.reason) > 40
    # Independent variables all: six standard errors of the widest of them.
    assert result.value < 0.15


def test_the_critic_is_the_choice_for_many_columns_and_numbers(monkeypatch):
    choice = importlib.import_module("skfairdp.metrics.information.mutual_information")
    calls = []
    monkeypatch.setattr(
        choice, "mine", lambda Z, s, **kw: calls.append(kw) or plug_in([0, 1], [0, 1])
    )
    rng = np.random.default_rng(0)
    mutual_information(rng.normal(size=(200, 9)), rng.normal(size=200))
    assert calls[0]["continuous_s"] is True


ROWS = np.random.default_rng(0).normal(size=(60, 2))
HALVES = np.tile([0, 1], 30)
BAD = [
    (mutual_information, (ROWS, HALVES), {"method": "kernel"}, "method"),
    (mutual_information, (ROWS, HALVES), {"units": "trits"}, "units"),
    (mutual_information, (ROWS, HALVES[:-1]), {}, "rows"),
    (mutual_information, (ROWS, [None, *HALVES[1:]]), {}, "missing"),
    (mutual_information, (ROWS * np.nan, HALVES), {}, "NaN"),
    (mutual_information, (ROWS, ROWS[:, 0]), {"method": "classifier"}, "groups"),
    (nearest_neighbours, (ROWS, HALVES), {"n_neighbors": 0}, "n_neighbors"),
    (nearest_neighbours, (ROWS, HALVES), {"n_neighbors": 60}, "n_neighbors"),
    (nearest_neighbours, (ROWS, [1] + [0] * 59), {}, "one row"),
    (nearest_neighbours, (ROWS, ROWS[:-1]), {"continuous_s": True}, "59 rows"),
    (nearest_neighbours, (["a"] * 60, HALVES), {}, "not numbers"),
    (nearest_neighbours, (np.zeros((60, 0)), HALVES), {}, "one column"),
    (plug_in, (ROWS, HALVES[:-1]), {}, "rows"),
    (mine, (ROWS, HALVES), {"iterations": 0}, "iterations"),
    (mine, (ROWS, HALVES), {"batch_size": 2.5}, "batch_size"),
    (mine, (ROWS, HALVES), {"held_out": 1.0}, "held_out"),
    (mine, (ROWS, HALVES), {"held_out": HALVES}, "booleans"),
    (mine, (ROWS, HALVES), {"held_out": HALVES > 5}, "two rows"),
    (mine, (ROWS, HALVES), {"averaging_rate": 0.0}, "averaging_rate"),
    (mine, (ROWS, HALVES), {"learning_rate": -1.0}, "learning_rate"),
    (mine, (ROWS, [0] * 60), {}, "two"),
    (mine, (ROWS[:10], HALVES[:10]), {}, "20"),
    (mine, (ROWS, ROWS[:-1]), {"continuous_s": True}, "59 rows"),
]


@pytest.mark.parametrize(("function", "arguments", "keywords", "words"), BAD)
def test_bad_input_is_refused_by_name(function, arguments, keywords, words):
    with pytest.raises(ValueError, match=words):
        function(*arguments, **keywords)
