"""Running time of secret draws, against a non-cryptographic generator and within a step."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import torch
from skorch import NeuralNet
from torch import nn

from skfairdp import DPSGDClassifier
from skfairdp.privacy import NoiseSource
from tests.benchmarks.rounds import interleaved, report

__all__ = ["benchmark_draws"]


def _fast() -> np.random.Generator:
    return np.random.Generator(np.random.SFC64())


def _under(make: Callable | None, task: Callable[[], object]) -> Callable[[], object]:
    """The task with other generators in place of the secret streams."""
    if make is None:
        return task

    def run() -> object:
        with patch("skfairdp.privacy.noise.secret_stream", make):
            return task()

    return run


class _Dropping(nn.Sequential):
    def __init__(self, n_features: int, p: float) -> None:
        super().__init__(nn.Linear(n_features, 64), nn.Tanh(), _OwnDropout(p), nn.Linear(64, 1))


class _OwnDropout(nn.Dropout):
    """Not of torch's own class, so that the engine takes no shorter way without masks."""


def _epoch(X: np.ndarray, y: np.ndarray, p: float | None = None) -> Callable[[], object]:
    net = None
    if p is not None:
        net = NeuralNet(
            _Dropping, criterion=nn.BCEWithLogitsLoss, optimizer=torch.optim.SGD,
            module__n_features=X.shape[1], module__p=p, train_split=None,
        )  # fmt: skip
    model = DPSGDClassifier(
        net, max_epochs=1, epsilon=None, noise_multiplier=1.0, progress=False, random_state=0
    )
    return lambda: model.fit(X, y)


def benchmark_draws(X: np.ndarray, y: np.ndarray) -> list[bool]:
    """Print the ratios of noise, of a default fit, and of a fit with dropout to one without."""
    held = []
    for n in (100, 10_000):
        sources = {"aes": NoiseSource(), "fast": _under(_fast, NoiseSource)()}
        times = interleaved(
            {name: lambda s=s, n=n: s.gaussian(n, 1.0) for name, s in sources.items()},
            repeats=200_000 // n,
            rounds=31,
        )
        held.append(
            report(f"{n} draws of noise: AES-128 / SFC64", times["aes"] / times["fast"], 1.25)
        )
    epoch = _epoch(X, y)
    times = interleaved({"aes": epoch, "fast": _under(_fast, epoch)})
    held.append(report("an epoch of DP-SGD: AES-128 / SFC64", times["aes"] / times["fast"], 1.1))
    times = interleaved({"masks": _epoch(X, y, 0.5), "none": _epoch(X, y, 0.0)}, rounds=5)
    held.append(report("an epoch of DP-SGD: dropout / none", times["masks"] / times["none"], 2.0))
    return held
