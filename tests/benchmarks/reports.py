"""Reports from raw CSV files: CPU time and the peak of memory of the whole command."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import skfairdp
from tests.benchmarks.rounds import report

__all__ = ["benchmark_reports"]

ASKED = ["--target", "outcome", "--positive", "approved", "--sensitive", "sex", "--epsilon", "1"]
_NUMBERS, _LEVELS = 14, (4, 8, 12, 20, 30, 6)


def benchmark_reports(large: int = 1_000_000) -> list[bool]:
    """Report on 30,000 and on a million rows of 14 numbers and 6 texts, and plan for the former.

    The package is compiled beforehand, as pip leaves it: with PYTHONDONTWRITEBYTECODE its
    compilation, some tenths of a second, would count in every run.
    """
    compileall.compile_dir(Path(skfairdp.__file__).parent, quiet=1)
    held = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for n, seconds, megabytes in ((30_000, 8.0, 1_000.0), (large, 100.0, 2_500.0)):
            path = folder / f"{n}.csv"
            _table(n).to_csv(path, index=False)
            taken, peak = _measured("report", path, "--delta", "1e-7", "--out", f"{path}.html")
            size = path.stat().st_size / 1e6
            work = f"report on {n:,} x {_NUMBERS + len(_LEVELS)} ({size:.0f} MB)"
            held.append(report(f"{work}: seconds of CPU", taken, seconds))
            held.append(report(f"{work}: peak, MB", peak, megabytes))
        taken, _ = _measured("plan", folder / "30000.csv", "--delta", "1e-7")
        held.append(report("plan for 30,000 rows: seconds of CPU", taken, 2.0))
    return held


def _table(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns: dict[str, object] = {}
    for place in range(_NUMBERS):
        wide = rng.lognormal(3.0, 1.0, n) if place % 2 else rng.normal(0.0, 10.0, n)
        columns[f"number {place}"] = wide.round(3)
    for place, levels in enumerate(_LEVELS):
        texts = np.array([f"level {level:02d}" for level in range(levels)], dtype=object)
        columns[f"text {place}"] = rng.choice(texts, n)
    sex = rng.choice(["men", "women"], n, p=[0.6, 0.4])
    score = np.asarray(columns["number 0"]) / 10.0 + 0.4 * (sex == "men") + rng.normal(0.0, 1.0, n)
    outcome = np.where(score > 0.3, "approved", "refused")
    return pd.DataFrame(columns | {"sex": sex, "outcome": outcome})


def _measured(command: str, path: Path, *more: str) -> tuple[float, float]:
    """Seconds of CPU of a command and its peak of memory in MB, on Linux."""
    words = [sys.executable, "-m", "skfairdp", command, str(path), *ASKED, "--quiet", *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as run:
        _, code, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(code)
    if run.returncode not in (0, 1):
        raise RuntimeError(f"{command} ended with {run.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024.0
