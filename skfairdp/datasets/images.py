"""Images: grey portraits (UTKFace), and MNIST's digits in red, green or blue."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Bunch

from skfairdp.documentation import completed_by

from .source import Card, chosen_sensitive, read_arrays, read_card, refuse_other

_FACES = read_card("faces")
_FACE_KEYS = ("images_delta", "age", "gender", "race", "stamp")
_TARGETS = {"age": ["35 or younger", "older than 35"], "gender": ["male", "female"]}
_RACES = np.array(["White", "Black", "Asian", "Indian", "Other"], dtype=object)

# The split is part of the data set: it must always be the same, so its seed is fixed.
_SPLIT_SEED = 20_170_112
_TEST_SHARE = 0.2

_DIGITS = read_card("colored_digits")
_DIGIT_KEYS = ("x_train", "y_train", "x_test", "y_test")
_COLORS = np.array(["red", "green", "blue"], dtype=object)
_SIDE = 28


@completed_by(_FACES.docstring)
def fetch_utkface(
    *,
    target: str = "age",
    sensitive: str = "race",
    pixel_range: tuple[float, float] = (-1.0, 1.0),
    deduplicate: bool = True,
    data_home: str | os.PathLike[str] | None = None,
    verify: bool = False,
) -> Bunch:
    """Load UTKFace as grey 48 x 48 images.

    Parameters
    ----------
    target : {"age", "gender"}, default="age"
        Older than 35 or not, or female or not.
    sensitive : {"race", "gender"}, default="race"
        What to return as `sensitive_features`.
    pixel_range : (float, float), default=(-1.0, 1.0)
        Where black (0) and white (255) are mapped to.
    deduplicate : bool, default=True
        Keep only the first of images that are equal to the byte.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`, but `data` is an ndarray of shape (n_samples, 1, 48, 48) of
        float32, `bounds` and `categories` are empty, and there is no `frame`. `split` is "train"
        or "test" (80 to 20).

    Examples
    --------
    >>> from skfairdp.datasets import fetch_utkface
    >>> fetch_utkface(deduplicate=False).data.shape  # doctest: +SKIP
    (23704, 1, 48, 48)
    """
    refuse_other("target", target, tuple(_TARGETS))
    black, white = _checked_range(pixel_range)
    arrays = read_arrays(_FACES.file, _FACE_KEYS, data_home, verify=verify)
    # Stored as differences; sums of bytes wrap at 256, as the differences did.
    lines = np.cumsum(arrays["images_delta"], axis=2, dtype=np.uint8)
    images = np.cumsum(lines, axis=1, dtype=np.uint8)
    people = pd.DataFrame({key: arrays[key] for key in ("age", "gender", "race")})
    if deduplicate:
        first = ~pd.Series([image.tobytes() for image in images]).duplicated().to_numpy()
        images, people = images[first], people[first].reset_index(drop=True)
    gender = people["gender"].map({0: "male", 1: "female"})
    race = pd.Series(_RACES[people["race"].to_numpy()])
    groups = chosen_sensitive(sensitive, {"race": race, "gender": gender})
    positive = people["age"] > 35 if target == "age" else people["gender"] == 1
    scale = np.float32((white - black) / 255.0)
    pixels = images.astype(np.float32)[:, None] * scale + np.float32(black)
    split = np.full(len(images), "train", dtype=object)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(images))
    split[order[: round(_TEST_SHARE * len(images))]] = "test"
    return _assembled(
        pixels,
        _FACES,
        pixel_range=(black, white),
        target=positive.astype("int64").rename(target),
        target_names=_TARGETS[target],
        sensitive_features=groups,
        split=split,
        remark=", duplicates removed" if deduplicate else "",
    )


@completed_by(_DIGITS.docstring)
def make_colored_mnist(
    *,
    utility: str = "digit",
    correlation: float = 0.0,
    size: int = _SIDE,
    part: str = "all",
    n_samples: int | None = None,
    pixel_range: tuple[float, float] = (0.0, 1.0),
    data_home: str | os.PathLike[str] | None = None,
    random_state: int | None = 0,
    verify: bool = False,
) -> Bunch:
    """Draw MNIST's digits in random colours.

    Parameters
    ----------
    utility : {"digit", "color"}, default="digit"
        What the target is; the other one is the sensitive feature.
    correlation : float in [0, 1], default=0.0
        Probability that the colour is chosen by the digit (modulo 3) instead of at random.
    size : int from 2 to 28, default=28
        Height and width; below 28 the images are averaged down.
    part : {"all", "train", "test"}, default="all"
        Which images. All of them at 28 x 28 take 660 MB.
    n_samples : int or None, default=None
        So many different images, drawn at random; None takes all.
    pixel_range : (float, float), default=(0.0, 1.0)
        Where black (0) and full colour (255) are mapped to.
    random_state : int or None, default=0
        Seed of colours and choice.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_utkface`: `data` is an ndarray of shape (n_samples, 3, size, size) of
        float32, `target` a Series of int (the digit, or 0 to 2 for red, green, blue),
        `sensitive_features` a Series of text, `split` "train" or "test".

    Examples
    --------
    >>> from skfairdp.datasets import make_colored_mnist
    >>> make_colored_mnist(size=10, part="test").data.shape  # doctest: +SKIP
    (10000, 3, 10, 10)
    """
    refuse_other("utility", utility, ("digit", "color"))
    refuse_other("part", part, ("all", "train", "test"))
    if not 0.0 <= correlation <= 1.0:
        raise ValueError(f"correlation is {correlation!r}. Allowed is a number from 0 to 1.")
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 2 <= size <= _SIDE:
        raise ValueError(f"size is {size!r}. Allowed are integers from 2 to {_SIDE}.")
    black, white = _checked_range(pixel_range)
    arrays = read_arrays(_DIGITS.file, _DIGIT_KEYS, data_home, verify=verify)
    parts = ("train", "test") if part == "all" else (part,)
    images = np.concatenate([arrays[f"x_{name}"] for name in parts])
    digits = np.concatenate([arrays[f"y_{name}"] for name in parts]).astype(np.int64)
    split = np.repeat(np.array(parts, dtype=object), [len(arrays[f"y_{name}"]) for name in parts])
    rng = np.random.default_rng(random_state)
    if n_samples is not None:
        if isinstance(n_samples, bool) or not 1 <= n_samples <= len(images):
            raise ValueError(f"n_samples is {n_samples!r}. Allowed are 1 to {len(images)}.")
        chosen = rng.choice(len(images), size=n_samples, replace=False)
        images, digits, split = images[chosen], digits[chosen], split[chosen]
    by_digit = rng.random(len(digits)) < correlation
    colors = np.where(by_digit, digits % 3, rng.integers(0, 3, len(digits)))
    data = np.full((len(digits), 3, size, size), black, dtype=np.float32)
    data[np.arange(len(digits)), colors] = black + (white - black) / 255 * _reduced(images, size)
    names = pd.Series(_COLORS[colors], name="color")
    digit_names = pd.Series(digits.astype(str).astype(object), name="digit")
    return _assembled(
        data,
        _DIGITS,
        pixel_range=(black, white),
        target=pd.Series(digits if utility == "digit" else colors, name=utility),
        target_names=[str(d) for d in range(10)] if utility == "digit" else _COLORS.tolist(),
        sensitive_features=names if utility == "digit" else digit_names,
        split=split,
        remark=f" of {size} x {size}, correlation {correlation:g}",
    )


def _reduced(images: NDArray[np.uint8], size: int) -> NDArray[np.float32]:
    """Images averaged down by area: a new pixel is the mean of the old area below it."""
    pixels = images.astype(np.float32)
    if size == _SIDE:
        return pixels
    edges = np.arange(size + 1) * (_SIDE / size)
    old = np.arange(_SIDE)
    overlap = np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)
    weights = (np.maximum(overlap, 0.0) * (size / _SIDE)).astype(np.float32)
    return weights @ pixels @ weights.T


def _assembled(
    pixels: NDArray[np.float32],
    card: Card,
    *,
    pixel_range: tuple[float, float],
    target: pd.Series,
    target_names: Sequence[str],
    sensitive_features: pd.Series | pd.DataFrame,
    split: NDArray[np.object_],
    remark: str,
) -> Bunch:
    """Put images and text together; pixels need no declaration."""
    black, white = map(np.float32, pixel_range)
    return Bunch(
        data=np.clip(pixels, black, white, out=pixels),
        target=target,
        sensitive_features=sensitive_features,
        feature_names=[],
        target_names=list(target_names),
        bounds={},
        categories={},
        log_columns=(),
        leak_columns=(),
        split=split,
        DESCR=(
            f"{card.description.strip()}\n\nRows read from: file {card.file.name}. "
            f"{len(pixels)} images{remark}."
        ),
    )


def _checked_range(pixel_range: tuple[float, float]) -> tuple[float, float]:
    """Where black and white are mapped to."""
    black, white = (float(end) for end in pixel_range)
    if not (np.isfinite(black) and np.isfinite(white) and black < white):
        raise ValueError(f"pixel_range is {pixel_range!r}. Allowed is (low, high), low < high.")
    return black, white
