"""UTKFace: grey 48 x 48 portraits with age, gender and race."""

from __future__ import annotations

import inspect
import os

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Bunch

from .assembly import chosen_sensitive
from .source import RawFile, find_file, missing

__all__ = ["fetch_utkface"]

_RAW = RawFile(
    name="utkface48.npz",
    columns=(),
    origin=(
        "It is made of the aligned and cropped faces of https://susanqq.github.io/UTKFace/: grey, "
        "averaged down to 48 x 48 bytes, with arrays images_delta (differences along rows, then "
        "columns, modulo 256; shape (n, 48, 48)), age, gender (0 male, 1 female), race (0 White, 1 "
        "Black, 2 Asian, 3 Indian, 4 Other) and stamp (the date and time in the file name). OpenML "
        "does not have it."
    ),
    sha256="fa7d9881011d767c28ca1be8414afb4d91b075aec30456bc585ce5b7a80aed55",
)
_KEYS = ("images_delta", "age", "gender", "race", "stamp")
_TARGETS = {"age": ["35 or younger", "older than 35"], "gender": ["male", "female"]}
_RACES = np.array(["White", "Black", "Asian", "Indian", "Other"], dtype=object)

# The split is part of the data set: it must be the same for everybody, so its seed is fixed.
_SPLIT_SEED = 20_170_112
_TEST_SHARE = 0.2

_DESCRIPTION = """
UTKFace
-------
23,704 portraits from the web with estimated age, gender and race. Target 1: older than 35
(target="age"; 8,598 rows; the papers do not state their rule and this one comes nearest to their
counts) or female (target="gender"). Sensitive: race (White, Black, Asian, Indian, Other) or gender.
`split` is ours, there is no official one: a fifth of the images are "test", chosen by one fixed
permutation (numpy default_rng, seed 20170112) after duplicates are removed.

Source: Z. Zhang, Y. Song and H. Qi (2017), Age Progression/Regression by Conditional Adversarial
Autoencoder, CVPR; https://susanqq.github.io/UTKFace/. Licence: NON-COMMERCIAL RESEARCH ONLY.

390 images are exact copies of others. deduplicate=True keeps the first of each, so that no test
image was seen in training. The privacy guarantee speaks of the set after that step; a person with
several different portraits is several records.
Missing values: none. Pixels are bytes, mapped from 0-255 to pixel_range: nothing is learned.
"""


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
    data_home : path-like or None, default=None
        Folder that holds ``utkface48.npz``. None reads the environment variable ``SKFAIRDP_DATA``.
    verify : bool, default=False
        Compare the local file's SHA-256 with the one that published results were made with.

    Returns
    -------
    bunch : Bunch
        As in :func:`fetch_adult`, but `data` is an ndarray of shape (n_samples, 1, 48, 48) of
        float32, `bounds` and `categories` are empty, and there is no `frame`. `split` is "train"
        or "test" (80 to 20).

    Raises
    ------
    FileNotFoundError
        If the file cannot be found; the message says where to get it.
    ValueError
        If the file is not the expected one or an argument is unknown.

    Examples
    --------
    >>> from skfairdp.datasets import fetch_utkface
    >>> fetch_utkface(deduplicate=False).data.shape  # doctest: +SKIP
    (23704, 1, 48, 48)
    """
    if target not in _TARGETS:
        raise ValueError(f"target is {target!r}. Allowed are {tuple(_TARGETS)!r}.")
    black, white = (float(end) for end in pixel_range)
    if not (np.isfinite(black) and np.isfinite(white) and black < white):
        raise ValueError(f"pixel_range is {pixel_range!r}. Allowed is (low, high), low < high.")
    path = find_file(_RAW, data_home, verify=verify)
    if path is None:
        raise missing(_RAW)
    with np.load(path) as archive:
        absent = [key for key in _KEYS if key not in archive]
        if absent:
            raise ValueError(f"{str(path)!r} lacks the arrays {absent!r}. {_RAW.origin}")
        images = _decoded(archive["images_delta"])
        people = pd.DataFrame({key: archive[key] for key in ("age", "gender", "race")})
    if deduplicate:
        first = ~pd.Series([image.tobytes() for image in images]).duplicated().to_numpy()
        images, people = images[first], people[first].reset_index(drop=True)
    gender = people["gender"].map({0: "male", 1: "female"})
    race = pd.Series(_RACES[people["race"].to_numpy()])
    groups = chosen_sensitive(sensitive, {"race": race, "gender": gender})
    positive = people["age"] > 35 if target == "age" else people["gender"] == 1
    scale = np.float32((white - black) / 255.0)
    pixels = images.astype(np.float32)[:, None] * scale + np.float32(black)
    text = (
        f"{inspect.cleandoc(_DESCRIPTION)}\n\nRows read from: file {_RAW.name}. "
        f"{len(pixels)} images{', duplicates removed' if deduplicate else ''}."
    )
    return Bunch(
        data=np.clip(pixels, np.float32(black), np.float32(white), out=pixels),
        target=positive.astype("int64").rename(target),
        sensitive_features=groups,
        feature_names=[],
        target_names=_TARGETS[target],
        bounds={},
        categories={},
        log_columns=(),
        leak_columns=(),
        split=_split(len(pixels)),
        DESCR=text,
    )


def _decoded(delta: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Undo the differences; sums of bytes wrap at 256, as the differences did."""
    return np.cumsum(np.cumsum(delta, axis=2, dtype=np.uint8), axis=1, dtype=np.uint8)


def _split(n_images: int) -> NDArray[np.object_]:
    split = np.full(n_images, "train", dtype=object)
    order = np.random.default_rng(_SPLIT_SEED).permutation(n_images)
    split[order[: round(_TEST_SHARE * n_images)]] = "test"
    return split
