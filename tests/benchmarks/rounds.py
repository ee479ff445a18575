"""Ratios of running times that mean something on a shared machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

__all__ = ["clock_of", "interleaved", "report"]


def interleaved(
    tasks: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 15,
    repeats: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Median time of each task in seconds, over rounds in which every task runs once.

    Neighbours on the machine slow all tasks of a round alike, and process CPU time
    does not count the time that the machine gave to others.
    """
    for task in tasks.values():
        task()
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            if repeats > 1:
                # Short tasks would else pay for what the one before left in the caches:
                # training runs one step after the other.
                for _ in range(1 + repeats // 4):
                    task()
            start = clock()
            for _ in range(repeats):
                task()
            times[name].append((clock() - start) / repeats)
    return {name: statistics.median(values) for name, values in times.items()}


def clock_of(device: str) -> Callable[[], float]:
    """Return the clock for work on a device: CPU time, or wall time once a GPU is done."""
    if device == "cpu":
        return time.process_time

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return clock


def report(work: str, ratio: float, limit: float, *, at_least: bool = False) -> bool:
    """Print one row and return whether it holds."""
    holds = ratio >= limit if at_least else ratio <= limit
    sign = ">=" if at_least else "<="
    print(f"{work:<72} {ratio:7.2f}   {sign} {limit:<5g} {'holds' if holds else 'DOES NOT HOLD'}")
    return holds
