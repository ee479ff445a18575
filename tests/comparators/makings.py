"""Rows and estimators that the tests of the comparators share."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch

from skfairdp.comparators import (
    CFAIREncoder,
    CFBEncoder,
    FFVAEEncoder,
    LAFTREncoder,
    PPVAEEncoder,
    VFAEEncoder,
)
from skfairdp.comparators.networks import Batch, Widths

EVERY = (LAFTREncoder, CFAIREncoder, VFAEEncoder, FFVAEEncoder, CFBEncoder, PPVAEEncoder)
WITH_LABELS = (LAFTREncoder, CFAIREncoder, VFAEEncoder, CFBEncoder)
GROUP_AWARE = (VFAEEncoder, PPVAEEncoder)


def people(
    n: int = 200, *, n_groups: int = 2, n_classes: int = 2, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels and groups.

    The first column tells the label, the second the group, both without fail; the third is
    a fair coin.
    """
    rng = np.random.default_rng(seed)
    y, s = rng.integers(n_classes, size=n), rng.integers(n_groups, size=n)
    X = np.column_stack([3.0 * y + rng.normal(size=n), 6.0 * s, rng.integers(2, size=n)])
    X[:, 1] += rng.normal(size=n)
    return X, y, s


def small(kind: type, **settings: Any) -> Any:
    """An encoder that trains in no time."""
    defaults = {"max_epochs": 2, "hidden_sizes": (8,), "random_state": 0, "progress": False}
    return kind(**{**defaults, **settings})


def encode(encoder: Any, X: np.ndarray, s: Any) -> np.ndarray:
    """Transform, with groups if the encoder sees them."""
    if "sensitive_features" in inspect.signature(encoder.transform).parameters:
        return encoder.transform(X, sensitive_features=s)
    return encoder.transform(X)


def generator(seed: int = 0) -> torch.Generator:
    """A generator for numbers that a loss is given."""
    return torch.Generator().manual_seed(seed)


def losses_of(model: Any, *made_of: Any) -> Any:
    """The losses that a method trains on."""
    return model._losses(model, *made_of)


def batch(n: int = 40, n_groups: int = 2, n_classes: int = 2) -> tuple[Batch, Widths]:
    """Rows of three numbers and a coin, with labels and groups, and the sizes of networks."""
    source = generator(3)
    x = torch.randn((n, 4), generator=source)
    x[:, 3] = (x[:, 3] > 0).float()
    y = torch.randint(n_classes, (n,), generator=source)
    s = torch.randint(n_groups, (n, 1), generator=source)
    binary = torch.tensor([False, False, False, True])
    return Batch(x, y, s), Widths(4, 2, n_classes, (n_groups,), (5,), binary)
