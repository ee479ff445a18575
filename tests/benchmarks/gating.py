"""Running time of a parity gate per query, early and late in a stream."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skfairdp.fairness.gate import ParityGate
from tests.benchmarks.rounds import interleaved, report

__all__ = ["benchmark_gating"]

N_GROUPS, N_CLASSES = 3, 2


def _stream(n_queries: int) -> Callable[[], None]:
    """Put that many drawn (group, label) pairs to a fresh gate."""
    rng = np.random.default_rng(0)
    pairs = list(
        zip(
            rng.integers(N_GROUPS, size=n_queries).tolist(),
            rng.integers(N_CLASSES, size=n_queries).tolist(),
            strict=True,
        )
    )

    def run() -> None:
        gate = ParityGate(N_GROUPS, N_CLASSES, tolerance=0.05, cold_start=20)
        for group, label in pairs:
            gate.offer(group, label)

    return run


def benchmark_gating() -> list[bool]:
    """Print the cost of eight times as many queries: 8 where the cost is linear."""
    times = interleaved({"short": _stream(2_000), "long": _stream(16_000)}, rounds=5)
    print(f"{'gate: microseconds a query, of 16,000':<72} {1e6 * times['long'] / 16_000:7.2f}")
    # 8 is linear; a quarter more allows for the noise of the clock.
    return [report("gate: 16,000 queries / 2,000 queries", times["long"] / times["short"], 10.0)]
