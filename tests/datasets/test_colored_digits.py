"""Coloured digits: on a small file of the test's own, and on the real one."""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp.datasets import make_colored_mnist

N_TRAIN, N_TEST = 900, 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits")
    rng = np.random.default_rng(0)
    arrays = {}
    for part, n in (("train", N_TRAIN), ("test", N_TEST)):
        arrays[f"x_{part}"] = rng.integers(1, 256, (n, 28, 28), dtype=np.uint8)
        arrays[f"y_{part}"] = rng.integers(0, 10, n, dtype=np.uint8)
    np.savez_compressed(path / "mnist.npz", **arrays)
    return path


def colors_of(bunch):
    return bunch.data.reshape(len(bunch.data), 3, -1).sum(axis=2).argmax(axis=1)


def test_each_image_has_one_colour_and_the_digit_is_in_its_channel(folder):
    bunch = make_colored_mnist(data_home=folder)
    assert bunch.data.shape == (N_TRAIN + N_TEST, 3, 28, 28)
    assert bunch.data.dtype == np.float32
    assert ((bunch.data.sum(axis=(2, 3)) > 0).sum(axis=1) == 1).all()
    names = np.array(["red", "green", "blue"])[colors_of(bunch)]
    assert (names == bunch.sensitive_features).all()
    source = np.load(folder / "mnist.npz")["x_train"]
    shown = bunch.data[:N_TRAIN].max(axis=1) * 255
    np.testing.assert_allclose(shown, source, atol=1e-3)


def test_colours_are_independent_of_the_digit_or_follow_it(folder):
    free = make_colored_mnist(data_home=folder)
    shares = np.bincount(colors_of(free), minlength=3) / len(free.target)
    # 1,200 draws of probability 1/3: six standard deviations are .082.
    assert np.abs(shares - 1 / 3).max() < 0.082
    tied = make_colored_mnist(data_home=folder, correlation=1.0)
    assert (colors_of(tied) == tied.target % 3).all()
    half = make_colored_mnist(data_home=folder, correlation=0.5)
    # The colour agrees with probability 1/2 + 1/2 * 1/3 = 2/3.
    assert abs((colors_of(half) == half.target % 3).mean() - 2 / 3) < 0.082


def test_utility_may_be_the_colour(folder):
    digit = make_colored_mnist(data_home=folder)
    color = make_colored_mnist(data_home=folder, utility="color")
    np.testing.assert_array_equal(digit.data, color.data)
    np.testing.assert_array_equal(color.target, colors_of(color))
    np.testing.assert_array_equal(color.sensitive_features.astype(int), digit.target)
    assert color.target_names == ["red", "green", "blue"]


def test_smaller_images_keep_the_mean_brightness(folder):
    large = make_colored_mnist(data_home=folder, part="test", pixel_range=(-1.0, 1.0))
    small = make_colored_mnist(data_home=folder, part="test", size=10, pixel_range=(-1.0, 1.0))
    assert small.data.shape == (N_TEST, 3, 10, 10)
    np.testing.assert_allclose(
        small.data.mean(axis=(2, 3)), large.data.mean(axis=(2, 3)), atol=1e-5
    )
    half = make_colored_mnist(data_home=folder, part="test", size=14)
    full = make_colored_mnist(data_home=folder, part="test")
    blocks = full.data.reshape(N_TEST, 3, 14, 2, 14, 2).mean(axis=(3, 5))
    np.testing.assert_allclose(half.data, blocks, atol=1e-5)


def test_parts_and_samples(folder):
    assert set(make_colored_mnist(data_home=folder, part="train").split) == {"train"}
    few = make_colored_mnist(data_home=folder, n_samples=50)
    again = make_colored_mnist(data_home=folder, n_samples=50)
    np.testing.assert_array_equal(few.data, again.data)
    assert len(few.data) == len(few.target) == len(few.sensitive_features) == len(few.split) == 50
    other = make_colored_mnist(data_home=folder, n_samples=50, random_state=1)
    assert not np.array_equal(few.data, other.data)


@pytest.mark.parametrize(
    "arguments",
    [
        {"utility": "shape"},
        {"correlation": 1.5},
        {"size": 29},
        {"size": True},
        {"part": "validation"},
        {"n_samples": 0},
        {"n_samples": 10_000_000},
        {"pixel_range": (1.0, 0.0)},
    ],
)
def test_wrong_arguments_are_named(folder, arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        make_colored_mnist(data_home=folder, **arguments)


def test_missing_file_says_where_to_get_it(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"mnist\.npz"):
        make_colored_mnist(data_home=tmp_path)
    monkeypatch.delenv("SKFAIRDP_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="lecun"):
        make_colored_mnist()


def test_another_archive_is_refused(tmp_path):
    np.savez(tmp_path / "mnist.npz", x_train=np.zeros((1, 28, 28), np.uint8))
    with pytest.raises(ValueError, match="lacks the arrays"):
        make_colored_mnist(data_home=tmp_path)


@pytest.mark.slow
def test_real_digits_have_the_published_counts(data_home):
    bunch = make_colored_mnist(data_home=data_home, size=4, verify=True)
    assert (bunch.split == "train").sum() == 60_000
    assert bunch.target[:5].tolist() == [5, 0, 4, 1, 9]
    assert (bunch.target == 1).sum() == 6_742 + 1_135
