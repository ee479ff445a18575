"""MNIST's digits in red, green or blue."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Bunch

from skfairdp.foundation.documentation import completed_by

from .images import assembled, checked_range
from .source import read_arrays, read_card, refuse_other

_DIGITS = read_card("colored_digits")
_DIGIT_KEYS = ("x_train", "y_train", "x_test", "y_test")
_COLORS = np.array(["red", "green", "blue"], dtype=object)
_SIDE = 28


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
        Number of different images, drawn at random; None takes all.
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
    black, white = checked_range(pixel_range)
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
    return assembled(
        data,
        _DIGITS,
        (black, white),
        f" of {size} x {size}, correlation {correlation:g}",
        target=pd.Series(digits if utility == "digit" else colors, name=utility),
        target_names=[str(d) for d in range(10)] if utility == "digit" else _COLORS.tolist(),
        sensitive_features=names if utility == "digit" else digit_names,
        split=split,
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
