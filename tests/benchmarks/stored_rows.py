"""Memory and time of a fit on rows that stay on disk.

``python -m tests.benchmarks.stored_rows ROWS`` writes a Parquet folder of 20 columns to a temporary
place, fits in a process of its own, and prints its peak over the bare import.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLUMNS, FILE = 20, 1_000_000
NAMES = [f"x{j}" for j in range(COLUMNS)]


def write(folder: Path, n_rows: int) -> None:
    """Rows in float32, a million a file, a label and a group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    for i, start in enumerate(range(0, n_rows, FILE)):
        n = min(FILE, n_rows - start)
        X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
        y = (X[:, 0] + rng.standard_normal(n) > 0).astype(np.int8)
        columns = {name: X[:, j] for j, name in enumerate(NAMES)}
        table = pa.table(columns | {"y": y, "group": np.where(X[:, 1] > 0.3, "a", "b")})
        pq.write_table(table, folder / f"{i:04d}.parquet", row_group_size=250_000)


def peak() -> float:
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def fit(folder: Path) -> None:
    """One epoch on the rows of a folder, by DP-SGD and by groups."""
    import pyarrow.parquet  # noqa: F401 - part of the bare import

    from skfairdp import FairDPClassifier
    from skfairdp.datasets import ParquetRows

    bare, start = peak(), time.perf_counter()
    rows = ParquetRows(folder, features=NAMES, target="y", sensitive="group")
    opened = time.perf_counter()
    model = FairDPClassifier(delta=1e-9, batch_size=len(rows) // 1000, max_epochs=1)
    model.fit(rows)
    fitted = time.perf_counter()
    total = peak()
    right = np.mean(model.predict(rows) == np.asarray(rows.target))
    print(
        f"{len(rows):,} rows: bare import {bare:.0f} MB, fit {total - bare:+.0f} MB, predict "
        f"{peak() - bare:+.0f} MB; opened in {opened - start:.0f} s, {model.plan_.steps} steps in "
        f"{fitted - opened:.0f} s, predicted in {time.perf_counter() - fitted:.0f} s; "
        f"accuracy {right:.3f}"
    )


def main(n_rows: int) -> None:
    """Write rows, and fit in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), n_rows)
        subprocess.run([sys.executable, "-m", "tests.benchmarks.stored_rows", folder], check=True)


if __name__ == "__main__":
    (_, given) = sys.argv
    main(int(given)) if given.isdigit() else fit(Path(given))
