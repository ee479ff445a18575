"""Pictures of the page on locally private representations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from ldp_data import SETS, TITLES, parts
from ldp_jobs import (
    EPSILON,
    INFORMATION_EPSILONS,
    MORE_BETAS,
    SWEEP_EPOCHS,
    SWEPT_BETAS,
    SWEPT_EPSILONS,
    Job,
)

Rows = dict[str, dict[str, Any]]
ALL_BETAS = tuple(sorted((*SWEPT_BETAS, *MORE_BETAS)))
DIGITS = """Made by `python examples/reproduce/ldp_digits.py`. First line: test images, 10 x 10.
Then for each encoder its releases (values cut to [-1, 1]) and what the side decoder rebuilds from
them and the group. Representations have 300 numbers, so only a very large ε shows anything, and
such an ε protects no one. On the left: accuracy of the utility decoder, and of a forest on the
sensitive variable (chance: .33 for the colour, .10 for the digit), on 2,000 test images; one
encoder each, trained on 3,000 images for 6 epochs."""


def draw_figures(rows: Rows, out: Path) -> list[tuple[str, str, str]]:
    """Draw what there are measurements for; file names, titles and texts."""
    epochs = ", ".join(f"{n} on {TITLES[name]}" for name, n in SWEEP_EPOCHS.items())
    pictures = [
        (
            "representations_tradeoff.png",
            "Accuracy against the gap (figure 5)",
            f"Each point is one fit ({epochs} epochs; one seed) at one β of the sweep, on test "
            "rows; a colour is an ε, a cross Dis at ε = 5. ε = 0 is not fitted: its releases say "
            "nothing, so the best constant decision stands for it (star).",
            _tradeoff,
        ),
        (
            "representations_information.png",
            "Information over β (figure 6)",
            "Nearest neighbours, bits, test rows, Con, one seed each. For independent variables "
            "the estimate alone has a standard deviation of about .003 on Adult's test rows and "
            ".013 on the others', so single small values say little.",
            _information,
        ),
    ]
    drawn = []
    for name, title, text, draw in pictures:
        figure = draw(rows)
        if figure is not None:
            figure.savefig(out / name, dpi=120)
            plt.close(figure)
            drawn.append((name, title, text))
    if (out / "representations_digits.png").exists():
        drawn.append(
            (
                "representations_digits.png",
                "Colored MNIST (figure 4)",
                DIGITS,
            )
        )
    return drawn


def _points(rows: Rows, dataset: str, epsilon: float, method: str = "con") -> list[tuple]:
    jobs = [Job("sweep", dataset, method, 0, epsilon, beta) for beta in ALL_BETAS]
    return [(job.beta, rows[job.key]) for job in jobs if job.key in rows]


def _tradeoff(rows: Rows) -> plt.Figure | None:
    if not any(_points(rows, dataset, EPSILON) for dataset in SETS):
        return None
    figure, axes = plt.subplots(1, len(SETS), figsize=(13, 4.2), layout="constrained")
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.95, len(SWEPT_EPSILONS)))
    for axis, dataset in zip(axes, SETS, strict=True):
        for epsilon, colour in zip(SWEPT_EPSILONS, colours, strict=True):
            found = [fit for beta, fit in _points(rows, dataset, epsilon) if beta >= 0.1]
            if found:
                found.sort(key=lambda fit: fit["accuracy"])
                axis.plot([f["accuracy"] for f in found], [f["parity"] for f in found], "o-",
                          color=colour, markersize=4, label=f"ε = {epsilon:g}")  # fmt: skip
        found = [fit for beta, fit in _points(rows, dataset, EPSILON, "dis") if beta >= 0.1]
        axis.plot([f["accuracy"] for f in found], [f["parity"] for f in found], "x",
                  color="tab:red", label="Dis, ε = 5")  # fmt: skip
        test = parts(dataset, None)[1]
        axis.plot(max(test.u.mean(), 1 - test.u.mean()), 0.0, "k*", label="ε = 0")
        axis.set(title=TITLES[dataset], xlabel="accuracy", ylabel="ΔDP")
    axes[-1].legend(fontsize=8)
    return figure


def _information(rows: Rows) -> plt.Figure | None:
    if not any(_points(rows, dataset, EPSILON) for dataset in SETS):
        return None
    figure, axes = plt.subplots(
        2, len(SETS), figsize=(13, 6.5), layout="constrained", sharex=True, squeeze=False
    )
    for column, dataset in enumerate(SETS):
        for line, (name, label) in enumerate((("utility", "I(U;Z)"), ("information", "I(S;Z)"))):
            axis = axes[line, column]
            for epsilon in INFORMATION_EPSILONS:
                found = _points(rows, dataset, epsilon)
                axis.plot([b for b, _ in found], [f[name] for _, f in found], "o-",
                          label=f"ε = {epsilon:g}")  # fmt: skip
            axis.axhline(0, color="grey", linewidth=0.5)
            axis.set(xscale="log", ylabel=f"{label}, bits")
            axis.set_title(TITLES[dataset] if line == 0 else "")
        axes[1, column].set_xlabel("β")
    axes[0, 0].legend()
    return figure
