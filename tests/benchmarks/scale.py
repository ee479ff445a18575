"""Running time of large fits: the constants of docs/scale.md, and the error of their predictions.

``python -m tests.benchmarks.scale`` prints constants, and the CPU seconds that they predict for
fits on rows in memory with those that were taken. With a number of rows it writes a Parquet
folder of as many, of 20 columns, to a temporary place, fits on it in its own process, and
prints memory over the bare import; with "path" behind it, the fit is that of a fair path. Under
``torchrun --nproc-per-node 2 -m tests.benchmarks.scale`` it prints the time of a release.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLUMNS, FILE = 20, 1_000_000
NAMES = [f"x{j}" for j in range(COLUMNS)]


def made_up(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows in float32 and two labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    return X, (X[:, 0] + rng.standard_normal(n) > 0).astype(np.int8)


def write(folder: Path, n_rows: int) -> None:
    """Files of a million rows with a label and a group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for i, start in enumerate(range(0, n_rows, FILE)):
        X, y = made_up(min(FILE, n_rows - start), i)
        columns = {name: X[:, j] for j, name in enumerate(NAMES)}
        table = pa.table(columns | {"y": y, "group": np.where(X[:, 1] > 0.3, "a", "b")})
        pq.write_table(table, folder / f"{i:04d}.parquet", row_group_size=250_000)


def peak() -> float:
    """Largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def fit_stored(folder: Path, path: bool) -> None:
    """One epoch on the rows of a folder, with a cell for each group; or a fair path, and tables."""
    import pyarrow.parquet  # noqa: F401 - part of the bare import

    from skfairdp import FairDPClassifier, FairPathClassifier
    from skfairdp.datasets import ParquetRows

    bare, start = peak(), time.process_time()
    rows = ParquetRows(folder, features=NAMES, target="y", sensitive="group")
    opened = time.process_time()
    kind = FairPathClassifier if path else FairDPClassifier
    model = kind(delta=1e-9, batch_size=len(rows) // 1000, max_epochs=1).fit(rows)
    fitted, of_fit = time.process_time(), peak()
    right = np.mean(model.predict(rows) == np.asarray(rows.target))
    print(
        f"{len(rows):,} rows: bare import {bare:.0f} MB, fit +{of_fit - bare:.0f} MB, predict "
        f"+{peak() - bare:.0f} MB; CPU: columns {opened - start:.0f} s, {model.plan_.steps} steps "
        f"{fitted - opened:.0f} s, predict {time.process_time() - fitted:.0f} s; "
        f"accuracy {right:.3f}"
    )


def fit_in_memory(n: int, size: int) -> tuple[float, int, float]:
    """CPU seconds of one epoch after the plan was made, its steps, and seconds of the plan."""
    from skfairdp import DPSGDClassifier

    X, y = made_up(n)
    model = DPSGDClassifier(delta=1e-9, batch_size=size, max_epochs=1)
    start = time.process_time()
    model.fit(X, y)  # the plan's noise is kept
    first = time.process_time()
    model.fit(X, y)
    again = time.process_time() - first
    return again, model.plan_.steps, first - start - again


def predicted() -> None:
    """Constants from two fits, and what they say of others."""
    fit_in_memory(1_000, 100)  # imports
    small, many, _ = fit_in_memory(100_000, 100)
    large, few, _ = fit_in_memory(100_000, 2_000)
    of_step = (small - large) / (many - few)
    of_row = (large - few * of_step) / 100_000
    print(f"a step {1e6 * of_step:.0f} µs, a row {1e6 * of_row:.2f} µs of CPU")
    for n, size in ((100_000, 500), (1_000_000, 1_000), (1_000_000, 10_000), (10_000_000, 10_000)):
        taken, steps, plan = fit_in_memory(n, size)
        print(
            f"{n:,} rows in {steps:,} steps: {steps * of_step + n * of_row:.1f} s predicted, "
            f"{taken:.1f} s taken; the plan {plan:.1f} s"
        )


def passes(n: int = 1_000_000) -> None:
    """CPU time of reading every tenth row of stored rows in one pass."""
    from skfairdp.datasets import ParquetRows
    from skfairdp.records.stored_rows import MemmapRows

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n)
        mapped = np.memmap(folder / "rows", np.float32, "w+", shape=(n, COLUMNS))
        mapped[:] = made_up(n)[0]
        every = np.arange(0, n, 10)
        for rows in (ParquetRows(folder, features=NAMES), MemmapRows(mapped)):
            start = time.process_time()
            rows.take(every)
            seconds = time.process_time() - start
            print(f"{type(rows).__name__}: {seconds:.2f} s a pass over {n:,} rows")


def releases() -> None:
    """Wall time of a release between the processes that torchrun started."""
    import torch
    from torch import distributed

    from skfairdp.engine.processes import Processes

    distributed.init_process_group("gloo")
    with Processes() as processes:
        for numbers in (1_000, 10_000, 100_000, 1_000_000):
            part, times = torch.ones(numbers, dtype=torch.float64), []
            for _ in range(30):
                start = time.perf_counter()
                processes.hand_on(processes.add_up(part).clone())
                times.append(time.perf_counter() - start)
            if processes.leads:
                print(
                    f"{numbers:,} numbers, {processes.size} processes: {1e6 * min(times):.0f} µs "
                    f"at best, median {1e6 * np.median(times):.0f}"
                )
    distributed.destroy_process_group()


def main(arguments: list[str]) -> None:
    """Print what was asked for."""
    if "RANK" in os.environ:
        releases()
    elif not arguments:
        predicted()
        passes()
    elif arguments[0].isdigit():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), int(arguments[0]))
            command = [sys.executable, "-m", "tests.benchmarks.scale", folder, *arguments[1:]]
            subprocess.run(command, check=True)
    else:
        fit_stored(Path(arguments[0]), arguments[1:] == ["path"])


if __name__ == "__main__":
    main(sys.argv[1:])
