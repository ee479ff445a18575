"""A frontier of twenty tolerances: one path fit, or a reduction for each of them.

Each fit runs in a process of its own, on one thread, and is timed in seconds of CPU. Run from the
root:

    python -m tests.benchmarks.frontier RESULTS.jsonl [--data Adult ...]
    python -m tests.benchmarks.frontier_report RESULTS.jsonl docs/results/frontier_price.png

The first line skips what the file has, so it can be broken off and started again. Data come from
the folder that SKFAIRDP_DATA names.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skfairdp import FairPathClassifier
from skfairdp.datasets import fetch_adult, fetch_bank, fetch_default_credit, fetch_diabetes130
from skfairdp.preprocessing import PublicEncoder, PublicScaler
from tests.benchmarks.rounds import report

__all__ = ["benchmark_frontier", "peak_memory"]

TOLERANCES = tuple(float(t) for t in np.geomspace(0.01, 0.2, 20))
# The ends and the middle first, so that a run that is broken off shows all of the range.
ORDER = (0, 19, 10, 5, 14, 2, 17, 7, 12, 3, 9, 15, 1, 18, 4, 6, 8, 11, 13, 16)
TABLES: dict[str, Callable[[], Any]] = {
    "Adult": fetch_adult,
    "Default-CCC": fetch_default_credit,
    "Bank (full)": fetch_bank,
    "Diabetes 130": fetch_diabetes130,
}
PATH, REDUCTION = "one path", "reduction"
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def benchmark_frontier(names: tuple[str, ...] = tuple(TABLES)) -> list[bool]:
    """Seconds of CPU, memory, accuracy and gap on test rows, for each table."""
    held = []
    for name in names:
        runs = []
        for run in runs_of(name, []):
            runs.append(run)
            for tolerance, accuracy, gap in run["figures"]:
                figures = f"accuracy {accuracy:.4f}, gap {gap:.4f}"
                print(f"    {run['how']}, tolerance {tolerance:.3f}: {figures}", flush=True)
        found = summary(runs, name)
        for how, of in ((PATH, found["path"]), (REDUCTION, found)):
            work = f"{name}: {how}, {len(TOLERANCES)} tolerances, {of['megabytes']:.0f} MB a fit"
            print(f"{work:<72} {of['seconds']:7.1f} s")
        work = f"{name}: {len(TOLERANCES)} reductions / one path"
        held.append(report(work, found["seconds"] / found["path"]["seconds"], 10, at_least=True))
    return held


def parts(name: str) -> tuple[Rows, Rows]:
    """Training and test rows: features, labels and groups, with groups not known left out."""
    bunch = TABLES[name]()
    scaler = PublicScaler(bunch.bounds, log_columns=bunch.log_columns)
    X = make_pipeline(scaler, PublicEncoder(bunch.categories)).fit_transform(bunch.data)
    y, groups = np.asarray(bunch.target).astype(int), bunch.sensitive_features
    known = np.asarray(groups.notna()).reshape(len(y), -1).all(axis=1)
    tables = (np.asarray(X, dtype=np.float32), y, np.asarray(groups).astype(str).reshape(len(y)))
    cut = train_test_split(*(table[known] for table in tables), test_size=0.3, random_state=0)
    return tuple(cut[::2]), tuple(cut[1::2])


def path(train: Rows, X: np.ndarray, tolerances: tuple[float, ...]) -> list[np.ndarray]:
    """Chances of the positive class at each tolerance: all from one fit."""
    rows, y, groups = train
    model = FairPathClassifier(epsilon=1.0, delta=1e-6, progress=False, random_state=0)
    model.fit(rows, y, sensitive_features=groups)
    return [model.at(tolerance).predict(X).astype(float) for tolerance in tolerances]


def reductions(train: Rows, X: np.ndarray, tolerances: tuple[float, ...]) -> list[np.ndarray]:
    """The same by a reduction for each tolerance, without any privacy."""
    rows, y, groups = train
    found = []
    for tolerance in tolerances:
        parity = DemographicParity(difference_bound=tolerance)
        model = ExponentiatedGradient(LogisticRegression(max_iter=1000), parity)
        model.fit(rows, y, sensitive_features=groups)
        found.append(model._pmf_predict(X)[:, 1])
    return found


def measured(
    of: Callable[..., list[np.ndarray]], train: Rows, test: Rows, tolerances: tuple[float, ...]
) -> dict[str, Any]:
    """Seconds of CPU, megabytes beyond the rows at their peak, accuracies and gaps on test rows."""
    X, y, groups = test

    def run() -> dict[str, Any]:
        warnings.simplefilter("ignore")  # no ledger; points of the path that may not keep a gap
        torch.set_num_threads(1)
        start = time.process_time()
        answers, grown = peak_growth(lambda: of(train, X, tolerances))
        seconds = time.process_time() - start
        figures = [(t, *_figures(c, y, groups)) for t, c in zip(tolerances, answers, strict=True)]
        return {"seconds": seconds, "megabytes": grown, "figures": figures}

    return in_own_process(run)


def peak_growth(task: Callable[[], Any]) -> tuple[Any, float]:
    """Result of a task, and by how many megabytes it raised the peak of this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = task()
    return found, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def in_own_process(task: Callable[[], Any]) -> Any:
    """Result of a task in a process that has imported everything; none of its memory stays."""
    context = multiprocessing.get_context("fork")
    inbox, outbox = context.Pipe(duplex=False)
    child = context.Process(target=lambda: outbox.send(task()))
    child.start()
    outbox.close()
    found = inbox.recv()
    child.join()
    return found


def peak_memory(task: Callable[[], object]) -> float:
    """Megabytes that a task adds to a process that has imported everything, at their peak."""
    return float(in_own_process(lambda: peak_growth(task)[1]))


def _figures(chances: np.ndarray, y: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    accuracy = float(np.where(y == 1, chances, 1.0 - chances).mean())
    rates = [float(chances[groups == group].mean()) for group in np.unique(groups)]
    return accuracy, max(rates) - min(rates)


def runs_of(name: str, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Make the runs of a table that are not done, one by one."""
    have = {(run["how"], tuple(t for t, *_ in run["figures"])) for run in done}
    wanted = [(PATH, path, TOLERANCES)]
    wanted += [(REDUCTION, reductions, (TOLERANCES[place],)) for place in ORDER]
    train, test = parts(name)
    for how, of, tolerances in wanted:
        if (how, tolerances) not in have:
            found = measured(of, train, test, tolerances)
            yield {"table": name, "rows": len(train[1]), "how": how, **found}


def fit(file: Path, names: list[str]) -> None:
    """Measure what is missing, and add a line for each fit."""
    for name in names:
        for run in runs_of(name, [run for run in read(file) if run["table"] == name]):
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(run) + "\n")


def summary(runs: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Seconds, memory and frontier of a table: of the path, and of the reductions that were run.

    Where some of the twenty reductions are missing, the seconds of all are those of the others in
    proportion.
    """
    ours = [run for run in runs if run["table"] == name]
    (of_path,) = (run for run in ours if run["how"] == PATH)
    others = [run for run in ours if run["how"] == REDUCTION]
    seconds = [run["seconds"] for run in others]
    return {
        "rows": of_path["rows"],
        "path": of_path,
        "n": len(others),
        "seconds": float(np.mean(seconds)) * len(TOLERANCES) if seconds else float("nan"),
        "megabytes": max((run["megabytes"] for run in others), default=float("nan")),
        "figures": sorted(figures for run in others for figures in run["figures"]),
    }


def read(file: Path) -> list[dict[str, Any]]:
    """Fits that were measured, one a line."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", nargs="+", choices=TABLES, default=list(TABLES))
    given = parser.parse_args()
    fit(given.file, given.data)
