"""Running time of an encoder against the same networks without noise, and of a million releases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from skfairdp import PrivateFairEncoder
from skfairdp.privacy import NoiseSource
from skfairdp.representation import LaplaceRandomizer, ResponseRandomizer
from tests.benchmarks.rounds import interleaved, report

__all__ = ["benchmark_representations"]

EPOCHS, BATCH, BETA = 5, 512, 10.0


def _plain(X: np.ndarray, y: np.ndarray, s: np.ndarray) -> Callable[[], None]:
    """The networks of the paper in plain torch: no truncation, no noise, all columns alike."""
    table, labels = torch.from_numpy(X.astype(np.float32)), torch.from_numpy(y.astype(np.int64))
    onehot = torch.eye(int(s.max()) + 1)[torch.from_numpy(s)]

    def run() -> None:
        p, k = table.shape[1], onehot.shape[1]
        encoder = nn.Sequential(nn.Linear(p, 100), nn.ReLU(), nn.Linear(100, 2))
        utility = nn.Sequential(
            nn.Linear(2, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 2)
        )
        side = nn.Sequential(nn.Linear(2 + k, 100), nn.ReLU(), nn.Linear(100, p))
        networks = nn.ModuleList([encoder, utility, side])
        optimizer = torch.optim.Adam(networks.parameters(), lr=0.001)
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(table)).split(BATCH):
                x, u, group = table[batch], labels[batch], onehot[batch]
                z = encoder(x)
                rebuilt = side(torch.cat([z, group], dim=1))
                loss = 0.5 * (x - rebuilt).square().sum(dim=1).mean()
                loss = loss + BETA * nn.functional.cross_entropy(utility(z), u)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    return run


def benchmark_representations(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[bool]:
    """Print the cost of fits compared with plain torch, and of releases by their number."""
    s = np.unique(groups, return_inverse=True)[1]

    def fit(**parameters: object) -> Callable[[], None]:
        encoder = PrivateFairEncoder(
            beta=BETA, batch_size=BATCH, max_epochs=EPOCHS, progress=False, **parameters
        )
        return lambda: encoder.fit(X, y, sensitive_features=groups)  # type: ignore[return-value]

    runs = {
        "plain": _plain(X, y, s),
        "laplace": fit(),
        "codes": fit(noise="randomized_response"),
    }
    times = interleaved(runs, rounds=3)
    held = [
        report(
            f"encoder, {name}: {EPOCHS} epochs / plain torch without noise",
            times[name] / times["plain"],
            3.0,
        )
        for name in ("laplace", "codes")
    ]
    return held + _benchmark_releases()


def _benchmark_releases() -> list[bool]:
    """Print the cost of ten times as many releases: 10 where it is linear."""
    laplace, codes = LaplaceRandomizer(5.0, 2, 0.5), ResponseRandomizer(5.0, 2, 8)
    many, few = 1_000_000, 100_000

    def release(n: int, kind: str) -> Callable[[], None]:
        if kind == "codes":
            hidden = np.zeros((n, 2), dtype=np.int64)
            return lambda: codes.release(hidden, NoiseSource())  # type: ignore[return-value]
        box = np.zeros((n, 2))
        return lambda: laplace.release(box, NoiseSource())  # type: ignore[return-value]

    held = []
    for kind in ("laplace", "codes"):
        times = interleaved({"few": release(few, kind), "many": release(many, kind)}, rounds=3)
        print(f"{f'release of {many:,} x 2, {kind}: seconds':<72} {times['many']:7.2f}")
        # 10 is linear; caches, and the clock of the short run, take their part.
        held.append(report(f"{kind}: {many:,} / {few:,}", times["many"] / times["few"], 15.0))
    return held
