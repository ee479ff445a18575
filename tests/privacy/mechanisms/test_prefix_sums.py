"""Prefix sums under Gaussian noise: the factorisation, its sensitivity, and what is released."""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.exceptions import PlanError
from skfairdp.privacy.mechanisms.integer_noise import SCALE_BITS
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums, _factor, prefix_norm, within_norm
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import GRID_FAILURE, Block, Plan, Segment


@pytest.mark.parametrize("length", [1, 2, 64, 1023])
def test_the_factor_squared_sums(length: int) -> None:
    factor = _factor(length)
    assert np.allclose(factor @ factor, np.tril(np.ones((length, length))), atol=1e-9)
    # Published: the norm squared is at most 1 + (log(length) + gamma) / pi, nearly met.
    assert prefix_norm(length) ** 2 <= 1.0 + (np.log(length) + 0.58) / np.pi + 1e-5


@pytest.mark.parametrize("noise_std", [0.3, 17.0, 1e4])
@pytest.mark.parametrize("length", [1, 255])
def test_a_record_moves_whole_numbers_by_less_than_is_charged(
    length: int, noise_std: float
) -> None:
    """Every entry a record can add to, in the units in which the noise is a whole number."""
    moved = PrefixSums(length, noise_std)._matrix
    assert moved.dtype == np.int64
    longest = max(float(np.linalg.norm(column.astype(float))) for column in moved.T)
    charged = prefix_norm(length) / noise_std  # norm over noise, as the plan states both
    assert longest / 2.0**SCALE_BITS <= charged
    assert longest / 2.0**SCALE_BITS >= charged * (1 - 1e-5)


def test_what_is_released_is_the_whole_sums_and_whole_noise(monkeypatch) -> None:
    drawn = np.arange(6.0).reshape(2, 3) * 2**20
    monkeypatch.setattr(NoiseSource, "on_grid", lambda self, sums, std: sums + drawn)
    sums = PrefixSums(3, 2.0)
    counts = np.array([[1, 0, 4], [0, 2, 0]])
    released = sums.release(counts, NoiseSource())
    expected = (counts @ sums._matrix.T + drawn) @ sums._decoder.T
    assert np.array_equal(released, expected)
    assert np.allclose(released - drawn @ sums._decoder.T, np.cumsum(counts, axis=1))


def test_estimates_are_unbiased_and_as_precise_as_stated() -> None:
    sums, noise = PrefixSums(64, 5.0 * prefix_norm(64)), NoiseSource(0)
    counts = np.arange(64)
    errors = np.stack([sums.release(counts, noise) for _ in range(2000)]) - np.cumsum(counts)
    assert np.abs(errors.mean(axis=0) / (sums.stds / 2000**0.5)).max() < 4.5
    assert np.allclose(errors.std(axis=0), sums.stds, rtol=0.08)
    assert sums.stds.max() == pytest.approx(5.0 * prefix_norm(64) ** 2, rel=1e-3)
    # Noise of the same price on each count adds up to far more.
    assert sums.stds.max() < 5.0 * 64**0.5 / 3


def test_without_noise_the_sums_are_exact() -> None:
    sums = PrefixSums(4, 0.0)
    assert np.array_equal(sums.release(np.array([1, 2, 0, 7]), NoiseSource()), [1, 3, 3, 10])
    assert not sums.stds.any()


def test_too_much_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="noise_std"):
        PrefixSums(4, 2.0**31)


def segment(**changes) -> Segment:
    stated = {"name": "path", "max_norm": prefix_norm(4), "weights": (1.0,), "noise_std": 3.0}
    block = Block(**{k: changes.pop(k, v) for k, v in stated.items()})
    settings = {"steps": 1, "rates": (1.0,), "expected_sizes": (5.0,), "failure": GRID_FAILURE}
    return Segment(**{**settings, **changes}, blocks=(block,))


def in_the_first(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(5, dtype=int), np.ones(5, dtype=int)


def release_of(planned: Segment) -> NoisyRelease:
    import torch

    module = torch.nn.Linear(1, 1)
    flat = flatten(module)
    plan = Plan(cells=("all",), segments=(planned,), adjacency="zero-out", delta=1e-5)
    rows = Rows(torch.zeros(5, 1), (torch.zeros(5),), np.array([0, 0, -1, 0, 0]))
    clipper = make_clipper(module, flat, objective_for(torch.nn.BCEWithLogitsLoss()))
    return NoisyRelease(rows, plan, clipper, NoiseSource(0))


def test_the_release_counts_each_row_once_and_draws_from_the_plan() -> None:
    planned = segment(noise_std=0.0, failure=0.0)
    release = release_of(planned)
    # A sign is all that a row adds, however large a number is given for it.
    entries = lambda rows: (np.array([0, 3, 5, 5, -1]), np.array([9, 1, 1, -7, 1]))  # noqa: E731
    sums, stds = release.prefix_sums(planned, entries, (2, 4))
    # The third row contributes nothing, nor does the last.
    assert np.array_equal(sums, [[1, 1, 1, 2], [0, -1, -1, -1]])
    assert stds.shape == (4,)
    with pytest.raises(PlanError, match="0 are left"):
        release.prefix_sums(planned, entries, (2, 4))


@pytest.mark.parametrize(
    "changes",
    [
        {"max_norm": 1.0},
        {"weights": (2.0,)},
        {"rates": (0.5,)},
        {"failure": 0.0},
        {"noise_std": 0.3},
    ],
    ids=str,
)
def test_a_plan_that_states_too_little_is_refused(changes: dict) -> None:
    planned = segment(**changes)
    with pytest.raises(PlanError):
        release_of(planned).prefix_sums(planned, in_the_first, (2, 4))


def test_a_segment_that_nobody_charged_is_refused() -> None:
    release = release_of(segment())
    with pytest.raises(PlanError, match="does not hold"):
        release.prefix_sums(segment(noise_std=2.0), in_the_first, (2, 4))


@pytest.mark.parametrize("n_entries", [2, 4, 18])
def test_a_record_of_several_entries_moves_sums_by_less_than_is_charged(n_entries: int) -> None:
    """Whatever it asks for: entries of one sign in one histogram would add up to more."""
    rng, length, n_columns = np.random.default_rng(0), 31, 24
    entries = rng.integers(-1, 3 * length, size=(500, n_columns))
    signs = rng.choice([-1, 1], size=entries.shape)
    # Far apart in as many histograms, the worst that is allowed; and all in one bin.
    entries[0], signs[0] = np.arange(n_columns) * length, 1
    entries[1], signs[1] = 0, 1
    kept = within_norm(entries, signs, length, n_entries)
    factor = _factor(length)
    norms = np.zeros(len(kept))
    for row, (own, sign) in enumerate(zip(kept, signs, strict=True)):
        counts = np.zeros(n_columns * length)
        np.add.at(counts, own[own >= 0], sign[own >= 0])
        norms[row] = np.linalg.norm(counts.reshape(-1, length) @ factor.T)
    charged = prefix_norm(length, n_entries)
    assert norms.max() == norms[0] == pytest.approx(charged, rel=1e-5)
    assert norms.max() <= charged
    assert norms[1] == pytest.approx(prefix_norm(length), rel=1e-5)
    # What is within the bounds stays as it is.
    assert ((kept == entries) | (kept == -1)).all()
    assert np.array_equal(within_norm(kept, signs, length, n_entries), kept)


def test_the_release_takes_of_a_record_the_entries_that_its_plan_states() -> None:
    planned = segment(noise_std=0.0, failure=0.0, max_norm=prefix_norm(4, 2))
    entries = np.array([[0, 5, 6], [0, 0, -1], [3, 7, 7], [-1, -1, -1], [4, 1, 2]])
    signs = np.array([[1, -1, -1], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, -1, 1]])
    sums, _ = release_of(planned).prefix_sums(planned, lambda _: (entries, signs), (2, 4), 2)
    # Of the first row the third entry is the second of its sign; the third row is in no cell.
    assert np.array_equal(sums, [[2, 1, 1, 1], [1, 0, 0, 0]])
    again = segment(max_norm=prefix_norm(4, 2))
    with pytest.raises(PlanError, match=r"prefix_norm\(4, 3\)"):
        release_of(again).prefix_sums(again, lambda _: (entries, signs), (2, 4), 3)
