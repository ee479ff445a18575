"""Grey portraits (UTKFace), and common parts of image data sets."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Bunch

from skfairdp.foundation.documentation import completed_by

from .source import Card, chosen_sensitive, read_arrays, read_card, refuse_other

_FACES = read_card("faces")
_FACE_KEYS = ("images_delta", "age", "gender", "race", "stamp")
_TARGETS = {"age": ["35 or younger", "older than 35"], "gender": ["male", "female"]}
_RACES = np.array(["White", "Black", "Asian", "Indian", "Other"], dtype=object)

# The split is part of the data set: it must always be the same, so its seed is fixed.
_SPLIT_SEED = 20_170_112
_TEST_SHARE = 0.2


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
    black, white = checked_range(pixel_range)
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
    return assembled(
        pixels,
        _FACES,
        (black, white),
        ", duplicates removed" if deduplicate else "",
        target=positive.astype("int64").rename(target),
        target_names=list(_TARGETS[target]),
        sensitive_features=groups,
        split=split,
    )


def assembled(
    pixels: NDArray[np.float32],
    card: Card,
    pixel_range: tuple[float, float],
    remark: str,
    **parts: Any,
) -> Bunch:
    """Put images and text together; pixels need no declaration."""
    text = f"Rows read from: file {card.file.name}. {len(pixels)} images{remark}."
    black, white = map(np.float32, pixel_range)
    return card.bunch([], text, data=np.clip(pixels, black, white, out=pixels), **parts)


def checked_range(pixel_range: tuple[float, float]) -> tuple[float, float]:
    """Check the values that black and white are mapped to."""
    black, white = (float(end) for end in pixel_range)
    if not (np.isfinite(black) and np.isfinite(white) and black < white):
        raise ValueError(f"pixel_range is {pixel_range!r}. Allowed is (low, high), low < high.")
    return black, white
