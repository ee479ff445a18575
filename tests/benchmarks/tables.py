"""Bins and categories of a large table: CPU time, and memory beside the table."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd

from skfairdp.preprocessing import PrivateTableEncoder
from tests.benchmarks.rounds import report

__all__ = ["benchmark_tables"]


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
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")
    before = _megabytes(status, "VmRSS")
    start = time.process_time()
    PrivateTableEncoder().fit(X)
    seconds = time.process_time() - start
    beside = 2**20 * (_megabytes(status, "VmHWM") - before)
    work = f"table encoder, {n:,} x {X.shape[1]}"
    return [
        report(f"{work}: seconds of CPU", seconds, 15.0),
        report(f"{work}: (table + peak beside it) / table", 1.0 + beside / size, 2.0),
    ]


def _megabytes(status: Path, name: str) -> float:
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)
