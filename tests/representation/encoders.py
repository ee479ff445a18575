"""Small encoders that the tests of this room share."""

from __future__ import annotations

from functools import cache
from typing import Any

from sklearn.base import clone

from skfairdp import PrivateFairEncoder
from tests.common.roster import people

FAST: dict[str, Any] = {"max_epochs": 1, "batch_size": 50, "progress": False}

ENCODERS = {
    "laplace": PrivateFairEncoder(**FAST),
    "codes": PrivateFairEncoder(noise="randomized_response", **FAST),
    "codes as codes": PrivateFairEncoder(noise="randomized_response", output="codes", **FAST),
    "two draws": PrivateFairEncoder(n_samples=2, n_components=3, **FAST),
    "trained privately": PrivateFairEncoder(train_privately=True, **FAST),
    "codes, trained privately": PrivateFairEncoder(
        noise="randomized_response", train_privately=True, **FAST
    ),
}


def build(name: str, **parameters: Any) -> PrivateFairEncoder:
    """Return a fresh encoder."""
    return clone(ENCODERS[name]).set_params(**parameters)


def fitted(name: str, **parameters: Any) -> PrivateFairEncoder:
    """Return an encoder fitted on `people`."""
    X, y, groups = people()
    return build(name, **parameters).fit(X, y, sensitive_features=groups)


once = cache(fitted)  # for checks that leave all but the number of releases as it is
