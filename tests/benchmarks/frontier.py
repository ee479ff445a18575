"""A frontier of twenty tolerances: one path fit, or a reduction for each of them."""

from __future__ import annotations

import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skfairdp import FairPathClassifier
from skfairdp.datasets import fetch_adult, fetch_bank, fetch_default_credit, fetch_diabetes130
from skfairdp.preprocessing import PublicEncoder, PublicScaler
from tests.benchmarks.rounds import report

__all__ = ["benchmark_frontier", "peak_memory"]

TOLERANCES = np.geomspace(0.01, 0.2, 20)
SHOWN = (0, 7, 12, 19)  # Tolerances whose accuracies and gaps are printed
TABLES: dict[str, Callable[[], Any]] = {
    "Adult": fetch_adult,
    "Default": fetch_default_credit,
    "bank-full": fetch_bank,
    "Diabetes130": fetch_diabetes130,
}


def benchmark_frontier(names: tuple[str, ...] = tuple(TABLES)) -> list[bool]:
    """Seconds of CPU, memory, accuracy and gap on test rows, for each table."""
    held = []
    for name in names:
        train, test = _parts(name)
        runs = {}
        for how, answers in (("one path", _path), ("reductions", _reductions)):
            start = time.process_time()
            found = answers(train, test[0])
            runs[how] = time.process_time() - start
            print(f"{f'{name}: {how}, {len(TOLERANCES)} tolerances':<72} {runs[how]:7.1f} s")
            for place in SHOWN:
                accuracy, gap = _figures(found[place], *test[1:])
                figures = f"accuracy {accuracy:.4f}, gap {gap:.4f}"
                print(f"    tolerance {TOLERANCES[place]:.3f}: {figures}")
            grown = peak_memory(partial(answers, train, test[0], TOLERANCES[:1]))
            print(f"    memory of one fit beyond the rows: {grown:.0f} MB", flush=True)
        work = f"{name}: {len(TOLERANCES)} reductions / one path"
        held.append(report(work, runs["reductions"] / runs["one path"], 10, at_least=True))
    return held


def peak_memory(task: Callable[[], object]) -> float:
    """Megabytes that a task adds to a process that has imported everything, at their peak."""
    context = multiprocessing.get_context("fork")
    inbox, outbox = context.Pipe(duplex=False)

    def measured() -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        task()
        outbox.send((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)

    child = context.Process(target=measured)
    child.start()
    grown = float(inbox.recv())
    child.join()
    return grown


def _parts(name: str) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Training and test rows: features, labels and groups, with groups not known left out."""
    bunch = TABLES[name]()
    scaler = PublicScaler(bunch.bounds, log_columns=bunch.log_columns)
    X = make_pipeline(scaler, PublicEncoder(bunch.categories)).fit_transform(bunch.data)
    y, groups = np.asarray(bunch.target).astype(int), bunch.sensitive_features
    known = np.asarray(groups.notna()).reshape(len(y), -1).all(axis=1)
    tables = (np.asarray(X, dtype=np.float32), y, np.asarray(groups).astype(str).reshape(len(y)))
    cut = train_test_split(*(table[known] for table in tables), test_size=0.3, random_state=0)
    return tuple(cut[::2]), tuple(cut[1::2])


def _path(
    train: tuple[np.ndarray, ...], X: np.ndarray, tolerances: np.ndarray = TOLERANCES
) -> list[np.ndarray]:
    """Chances of the positive class at each tolerance: all from one fit."""
    rows, y, groups = train
    model = FairPathClassifier(epsilon=1.0, delta=1e-6, progress=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no ledger; points of the path that may not keep a gap
        model.fit(rows, y, sensitive_features=groups)
        return [model.at(float(t)).predict(X).astype(float) for t in tolerances]


def _reductions(
    train: tuple[np.ndarray, ...], X: np.ndarray, tolerances: np.ndarray = TOLERANCES
) -> list[np.ndarray]:
    """The same by a reduction for each tolerance, without any privacy."""
    rows, y, groups = train
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for tolerance in tolerances:
            model = ExponentiatedGradient(
                LogisticRegression(max_iter=1000), DemographicParity(difference_bound=tolerance)
            )
            model.fit(rows, y, sensitive_features=groups)
            found.append(model._pmf_predict(X)[:, 1])
    return found


def _figures(chances: np.ndarray, y: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    accuracy = float(np.where(y == 1, chances, 1.0 - chances).mean())
    rates = [float(chances[groups == group].mean()) for group in np.unique(groups)]
    return accuracy, max(rates) - min(rates)
