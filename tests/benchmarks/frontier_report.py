"""Tables and picture of what a frontier costs, from the fits that frontier.py measured."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from tests.benchmarks.frontier import TABLES, TOLERANCES, read, summary

SHOWN = (0, 5, 10, 14, 19)  # Tolerances in the table


def table(runs: list[dict[str, Any]]) -> str:
    """Two tables in Markdown: prices, and the frontiers at a few tolerances."""
    names = [name for name in TABLES if any(run["table"] == name for run in runs)]
    lines = [
        "| data | training rows | path, s | reductions run | 20 reductions, s | ratio | path, MB "
        "| a reduction, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = [
        "| data | tolerance | path: accuracy | gap | reduction: accuracy | gap |",
        "|---" * 6 + "|",
    ]
    for name in names:
        of = summary(runs, name)
        ratio = of["seconds"] / of["path"]["seconds"]
        prices = (
            f"{of['seconds']:,.0f} | {ratio:,.0f} | {of['path']['megabytes']:.0f} | "
            f"{of['megabytes']:.0f}"
            if of["n"]
            else f"not run | | {of['path']['megabytes']:.0f} | "
        )
        lines.append(
            f"| {name} | {of['rows']:,} | {of['path']['seconds']:.1f} | {of['n']} of "
            f"{len(TOLERANCES)} | {prices} |"
        )
        paths = {tolerance: figures for tolerance, *figures in of["path"]["figures"]}
        have = {tolerance: figures for tolerance, *figures in of["figures"]}
        for place in SHOWN:
            tolerance = TOLERANCES[place]
            accuracy, gap = paths[tolerance]
            other = (
                "not run | "
                if tolerance not in have
                else "{:.4f} | {:.3f}".format(*have[tolerance])
            )
            rows.append(f"| {name} | {tolerance:.3f} | {accuracy:.4f} | {gap:.3f} | {other} |")
    return "\n".join([*lines, "", *rows])


def draw(runs: list[dict[str, Any]], file: Path) -> None:
    """Draw seconds as bars, and accuracy against the gap for every table."""
    names = [name for name in TABLES if any(run["table"] == name for run in runs)]
    figure = plt.figure(figsize=(11, 5.2), layout="constrained")
    grid = figure.add_gridspec(2, 4)
    bars = figure.add_subplot(grid[:, :2])
    places = np.arange(len(names))
    found = [summary(runs, name) for name in names]
    for shift, label, seconds in (
        (-0.2, "one path fit at ε = 1", [of["path"]["seconds"] for of in found]),
        (0.2, "20 reductions, not private", [of["seconds"] for of in found]),
    ):
        drawn = bars.bar(places + shift, seconds, 0.4, label=label)
        bars.bar_label(drawn, [f"{s:,.1f} s" if s < 10 else f"{s:,.0f} s" for s in seconds])
    bars.set(yscale="log", ylabel="seconds of CPU for 20 tolerances")
    run = ["" if of["n"] == len(TOLERANCES) else f"\n({of['n']} reductions run)" for of in found]
    bars.set_xticks(places, [name + some for name, some in zip(names, run, strict=True)])
    bars.margins(y=0.15)
    figure.legend(*bars.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    for place, (name, of) in enumerate(zip(names, found, strict=True)):
        axes = figure.add_subplot(grid[place // 2, 2 + place % 2])
        for figures, marker in ((of["path"]["figures"], "o"), (of["figures"], "x")):
            axes.plot([gap for *_, gap in figures], [f[1] for f in figures], marker, markersize=4)
        axes.set(title=name, xlabel="gap on test rows", ylabel="accuracy")
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()
    print(table(read(given.file)))
    draw(read(given.file), given.picture)
