"""Print the ratios of running times that the project promises: ``python -m tests.benchmarks``.

Names of benchmarks (steps, default, constrained, path, groups, persons, cnn, epochs, fits, whole,
frontier, many, calibration, search, teachers, gating, draws, mechanisms, representations, tables,
sparse, reports) as arguments run only those. ``--device cuda`` runs the steps (steps, default,
groups, persons, cnn) on a GPU, by wall time.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import torch

from tests.benchmarks import (
    constrained,
    draws,
    fits,
    frontier,
    gating,
    mechanisms,
    reports,
    representations,
    steps,
    tables,
    teachers,
)
from tests.benchmarks.adult import adult_rows

ON_DEVICES = ("steps", "default", "groups", "persons", "cnn")


def main(arguments: list[str]) -> int:
    """Run the benchmarks; return 1 if a ratio does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args(arguments)
    names, device = given.names, given.device
    if device != "cpu":
        names = names or list(ON_DEVICES)
        if not set(names) <= set(ON_DEVICES):
            parser.error(f"--device {device} is for {', '.join(ON_DEVICES)}")
    torch.set_num_threads(1)
    # opacus warns about its own hooks at every step.
    warnings.filterwarnings("ignore", module=r"(opacus|torch)\.")
    X, y, groups = adult_rows()
    benchmarks = {
        "steps": lambda: steps.benchmark_steps(X, y, device),
        "constrained": lambda: constrained.benchmark_constrained(X, y, groups),
        "path": lambda: constrained.benchmark_path(X, y, groups),
        "default": lambda: steps.benchmark_default_steps(X, y, device),
        "groups": lambda: steps.benchmark_groups(X, y, device),
        "persons": lambda: steps.benchmark_persons(X, y, device),
        "cnn": lambda: steps.benchmark_cnn(device),
        "epochs": lambda: fits.benchmark_epochs(X, y),
        "fits": lambda: fits.benchmark_fits(X, y, groups),
        "whole": lambda: fits.benchmark_whole(X, y),
        "frontier": frontier.benchmark_frontier,
        "many": lambda: fits.benchmark_many(X, y),
        "calibration": fits.benchmark_calibration,
        "search": lambda: fits.benchmark_search(X, y),
        "teachers": lambda: teachers.benchmark_teachers(X, y),
        "gating": gating.benchmark_gating,
        "draws": lambda: draws.benchmark_draws(X, y),
        "mechanisms": lambda: mechanisms.benchmark_mechanisms(X, y, groups),
        "representations": lambda: representations.benchmark_representations(X, y, groups),
        "tables": tables.benchmark_tables,
        "sparse": tables.benchmark_sparse,
        "reports": reports.benchmark_reports,
    }
    unknown = set(names) - set(benchmarks)
    if unknown:
        print(
            f"No benchmark called {', '.join(sorted(unknown))}; there are {', '.join(benchmarks)}."
        )
        return 2
    print(f"{len(X)} rows, {X.shape[1]} columns; ratios of medians of CPU time")
    if device != "cpu":
        print(f"on {torch.cuda.get_device_name(device)}: of wall time")
    held = [row for name in names or benchmarks for row in benchmarks[name]()]
    print(f"{sum(held)} of {len(held)} ratios hold")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
