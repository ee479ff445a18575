"""Pictures of the frontiers."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from frontier_jobs import EPSILONS

from skfairdp.model_selection import ParetoDisplay, pareto_frontier

mpl.use("agg")

import matplotlib.pyplot as plt

__all__ = ["draw_by_mechanism", "draw_frontier"]

MARKERS = "osD^vP*Xhd<>p"
COLOURS = (
    *("#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#d89b00", "#8c510a"),
    *("#666666", "#e41a1c", "#1f77b4", "#000000", "#00a6d6", "#c060c0"),
)
SHOWN = ("demographic_parity", "equalized_odds")


def draw_frontier(models: pd.DataFrame, title: str, path: Path) -> None:
    """Draw the models that no other beats in one of two notions.

    Parameters
    ----------
    models : DataFrame
    title : str
    path : Path
    """
    kept: set = set()
    for notion in SHOWN:
        best = pareto_frontier(models, maximize=["accuracy"], minimize=[notion, "epsilon"])
        kept |= set(best.index)
    # In the order of the table of mechanisms.
    display = ParetoDisplay.from_results(
        models.loc[sorted(kept)], gaps=list(SHOWN), value="accuracy", label="mechanism"
    )
    display.figure_.set_size_inches(8.4, 4.6)
    display.figure_.suptitle(f"{title}: beaten by no other in one of the notions", fontsize=11)
    display.figure_.savefig(path, dpi=120)
    plt.close(display.figure_)


def draw_by_mechanism(models: pd.DataFrame, constant: float, title: str, path: Path) -> None:
    """Draw the frontier of each mechanism in demographic parity, one panel for an epsilon.

    Parameters
    ----------
    models : DataFrame
    constant : float
        Accuracy of one answer for all.
    title : str
    path : Path
    """
    names = list(dict.fromkeys(models["mechanism"]))
    figure, axes = plt.subplots(
        2, 2, figsize=(8.4, 8.0), sharex=True, sharey=True, layout="constrained"
    )
    low, high = models["accuracy"].min(), models["accuracy"].max()
    dotted = constant > low - 0.2 * (high - low)  # where it does not squeeze the rest
    handles: dict = {}
    for panel, epsilon in zip(np.ravel(axes), EPSILONS, strict=True):
        for i, name in enumerate(names):
            own = models[(models["mechanism"] == name) & (models["epsilon"] == epsilon)]
            if own.empty:
                continue
            best = pareto_frontier(own, maximize=["accuracy"], minimize=[SHOWN[0]])
            best = best.sort_values([SHOWN[0], "accuracy"])
            (handles[name],) = panel.plot(
                best[SHOWN[0]], best["accuracy"], drawstyle="steps-post", lw=1.2, ms=6.5,
                marker=MARKERS[i % len(MARKERS)], color=COLOURS[i % len(COLOURS)], mec="white",
                mew=0.4,
            )  # fmt: skip
        if dotted:
            panel.axhline(constant, color="grey", lw=0.9, ls=":")
        panel.grid(alpha=0.3)
        panel.set_title(f"ε = {epsilon:g}", fontsize="medium")
    for panel in axes[:, 0]:
        panel.set_ylabel("accuracy")
    for panel in axes[1]:
        panel.set_xlabel("gap in demographic parity")
    axes[0, 0].set_xlim(left=-0.03 * models[SHOWN[0]].max())
    figure.legend(
        [handles[name] for name in names], names, loc="outside lower center", ncols=5,
        fontsize="small",
    )  # fmt: skip
    line = "\n(dotted: one answer for all)" if dotted else ""
    figure.suptitle(f"{title}: frontier of each mechanism{line}", fontsize=11)
    figure.savefig(path, dpi=110)
    plt.close(figure)
