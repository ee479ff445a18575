"""UTKFace: grey 48 x 48 portraits with age, gender and race."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Bunch

from skfairdp.documentation import completed_by

from .assembly import assemble_images, checked_range, chosen_sensitive
from .source import read_arrays, read_card

_CARD = read_card("faces")
_KEYS = ("images_delta", "age", "gender", "race", "stamp")
_TARGETS = {"age": ["35 or younger", "older than 35"], "gender": ["male", "female"]}
_RACES = np.array(["White", "Black", "Asian", "Indian", "Other"], dtype=object)

# The split is part of the data set: it must always be the same, so its seed is fixed.
_SPLIT_SEED = 20_170_112
_TEST_SHARE = 0.2


@completed_by(_CARD.docstring)
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
    if target not in _TARGETS:
        raise ValueError(f"target is {target!r}. Allowed are {tuple(_TARGETS)!r}.")
    black, white = checked_range(pixel_range)
    arrays = read_arrays(_CARD.file, _KEYS, data_home, verify=verify)
    images = _decoded(arrays["images_delta"])
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
    return assemble_images(
        pixels,
        _CARD,
        pixel_range=(black, white),
        target=positive.astype("int64").rename(target),
        target_names=_TARGETS[target],
        sensitive_features=groups,
        split=_split(len(pixels)),
        remark=", duplicates removed" if deduplicate else "",
    )


def _decoded(delta: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Undo the differences; sums of bytes wrap at 256, as the differences did."""
    return np.cumsum(np.cumsum(delta, axis=2, dtype=np.uint8), axis=1, dtype=np.uint8)


def _split(n_images: int) -> NDArray[np.object_]:
    split = np.full(n_images, "train", dtype=object)
    order = np.random.default_rng(_SPLIT_SEED).permutation(n_images)
    split[order[: round(_TEST_SHARE * n_images)]] = "test"
    return split
