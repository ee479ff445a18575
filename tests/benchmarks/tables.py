"""Large tables, and sparse ones: CPU time, and memory in addition to the table."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import clone

from skfairdp import DPSGDClassifier
from skfairdp.preprocessing import PrivateTableEncoder
from tests.benchmarks.rounds import report

__all__ = ["benchmark_sparse", "benchmark_tables"]


def benchmark_tables(n: int = 1_000_000) -> list[bool]:
    """Fit on 23 columns of numbers and 7 of text; memory is measured on Linux alone."""
    generator = np.random.default_rng(0)
    columns: dict[str, object] = {}
    for place in range(23):
        wide = generator.lognormal(5.0, 2.0, n)
        columns[f"number {place}"] = wide if place % 2 else generator.integers(0, 100, n)
    for place in range(7):
        texts = np.array([f"value {i}" for i in range(10 ** (1 + place % 3))], dtype=object)
        columns[f"text {place}"] = generator.choice(texts, n)
    X = pd.DataFrame(columns)
    size = X.memory_usage(deep=True).sum()
    PrivateTableEncoder().fit(X[:1000])
    seconds, beside = _measured(lambda: PrivateTableEncoder().fit(X))
    work = f"table encoder, {n:,} x {X.shape[1]}"
    return [
        report(f"{work}: seconds of CPU", seconds, 15.0),
        report(f"{work}: (table + peak beside it) / table", 1.0 + beside / size, 2.0),
    ]


def benchmark_sparse(n: int = 200_000, d: int = 5_000, entries: int = 20) -> list[bool]:
    """An epoch of a linear net on binned rows, and answers to all, which never become dense."""
    generator = np.random.default_rng(0)
    bins = generator.integers(0, d // entries, (n, entries)) + np.arange(0, d, d // entries)
    starts = np.arange(0, n * entries + 1, entries)
    X = csr_array((np.ones(n * entries), bins.ravel(), starts), shape=(n, d))
    y = bins[:, 0] < d // entries // 2
    model = DPSGDClassifier(max_epochs=1, delta=1e-7).set_params(net__module__hidden_sizes=())
    clone(model).fit(X[:1000], y[:1000])
    seconds, beside = _measured(lambda: model.fit(X, y).predict(X))
    work = f"linear net, {n:,} x {d:,} with {entries} entries a row ({seconds:.0f} s of CPU)"
    return [report(f"{work}: peak beside the rows / dense in float32", beside / (4 * n * d), 0.1)]


def _measured(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of CPU, and the increase of peak memory, in bytes."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")
    before, start = _megabytes(status, "VmRSS"), time.process_time()
    work()
    return time.process_time() - start, 2**20 * (_megabytes(status, "VmHWM") - before)


def _megabytes(status: Path, name: str) -> float:
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)
