"""Training steps of mechanisms that release more than a gradient, against DP-SGD's."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from skfairdp import DPSGDClassifier, LagrangianDualClassifier
from skfairdp.inprocessing.gradient import GradientClassifier, Run
from tests.benchmarks.rounds import report

__all__ = ["benchmark_mechanisms"]

COMMON: dict[str, Any] = {"epsilon": None, "noise_multiplier": 1.0, "progress": False}


def _seconds_a_step(base: type[GradientClassifier], rows: tuple, **settings: Any) -> float:
    """CPU time of a step of a fit, without what happens before and after its loop."""
    taken = []

    class Clocked(base):  # type: ignore[valid-type, misc]
        def _train(self, run: Run) -> None:
            start = time.process_time()
            super()._train(run)
            taken.append((time.process_time() - start) / run.plan.steps)

    X, y, groups = rows
    model = Clocked()
    model.set_params(**COMMON | settings)
    if base is DPSGDClassifier:
        model.fit(X, y)
    else:
        model.fit(X, y, sensitive_features=groups)
    return taken[0]


def benchmark_mechanisms(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[bool]:
    """Two groups, the same expected batch, the default network."""
    rows = (X, y, groups)
    held = []
    for batch, epochs in ((256, 3), (1024, 6)):
        size = {"batch_size": batch, "max_epochs": epochs}
        # A fit of each in turn: neighbours on the machine slow both alike.
        ratio = statistics.median(
            _seconds_a_step(LagrangianDualClassifier, rows, warmup_epochs=0, **size)
            / _seconds_a_step(DPSGDClassifier, rows, **size)
            for _ in range(7)
        )
        held.append(report(f"LagrangianDual step / DP-SGD step (B={batch})", ratio, 1.5))
    return held
