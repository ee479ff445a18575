"""Pictures of the FairPATE page."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from fairpate_against import EPSILONS as FIT_EPSILONS
from fairpate_summary import (
    OTHERS,
    TITLES,
    Results,
    frontier,
    joint_points,
    means,
)
from fairpate_sweep import EPSILONS, TOLERANCES

PAIR = ("adult", "utkface")
COLOURS = {
    "FairPATE": "tab:red", "PATE": "tab:blue", "DP-SGD": "black", "FairDP": "tab:green",
    "FairDP-SGD, λ = 0.25": "tab:brown", "FairDP-SGD, λ = 1": "tab:orange",
    "FairDP-SGD, λ = 4": "tab:purple",
}  # fmt: skip


def draw_figures(results: Results, out: Path) -> list[str]:
    """Draw all pictures and return their file names."""
    pictures = {
        "fairpate_surface.png": _surface, "fairpate_against.png": _against,
        "fairpate_preselection.png": _preselection,
    }  # fmt: skip
    for name, draw in pictures.items():
        figure = draw(results)
        figure.savefig(out / name, dpi=120)
        plt.close(figure)
    return list(pictures)


def _surface(results: Results) -> plt.Figure:
    """Accuracy, coverage and gap over epsilon and gamma, as three maps a data set."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.5), layout="constrained")
    for line, dataset in zip(axes, PAIR, strict=True):
        maps = np.full((3, len(EPSILONS), len(TOLERANCES)), np.nan)
        for i, epsilon in enumerate(EPSILONS):
            for j, tolerance in enumerate(TOLERANCES):
                said = results.behind_gate(dataset, "FairPATE", epsilon, tolerance)
                maps[:2, i, j] = means(said, "accuracy", "coverage")
                maps[2, i, j] = means(results.at(dataset, epsilon, tolerance), "gap")[0]
        titles = ("accuracy, answered", "coverage", "gap of the student without a gate")
        for axis, values, title in zip(line, maps, titles, strict=True):
            image = axis.imshow(values, origin="lower", aspect="auto", cmap="viridis")
            middle = (np.nanmin(values) + np.nanmax(values)) / 2
            for (i, j), value in np.ndenumerate(values):
                colour = "white" if value < middle else "black"
                axis.text(j, i, f"{value:.3f}", ha="center", va="center", color=colour)
            axis.set(
                title=f"{TITLES[dataset]}: {title}", xlabel="γ", ylabel="ε",
                xticks=range(len(TOLERANCES)), xticklabels=TOLERANCES,
                yticks=range(len(EPSILONS)), yticklabels=[f"{e:g}" for e in EPSILONS],
            )  # fmt: skip
            figure.colorbar(image, ax=axis)
    return figure


def _against(results: Results) -> plt.Figure:
    """Coverage and accuracy behind the gate at inference, method by method."""
    figure, axes = plt.subplots(
        2, len(FIT_EPSILONS), figsize=(12, 7), layout="constrained", sharex=True, sharey="row"
    )
    for line, dataset in zip(axes, PAIR, strict=True):
        for axis, epsilon in zip(line, FIT_EPSILONS, strict=True):
            for method in ("FairPATE", "PATE", *OTHERS):
                points = [
                    means(said, "coverage", "accuracy")
                    for tolerance in TOLERANCES
                    if (said := results.behind_gate(dataset, method, epsilon, tolerance))
                ]
                if points:
                    xs, ys = zip(*points, strict=True)
                    axis.plot(xs, ys, "-", color=COLOURS[method], label=method, alpha=0.6)
                    sizes = 15 + 250 * np.asarray(TOLERANCES)
                    axis.scatter(xs, ys, s=sizes, color=COLOURS[method])
            axis.set_title(f"{TITLES[dataset]}, ε ≤ {epsilon:g}")
            axis.set_xlabel("coverage")
        line[0].set_ylabel("accuracy among answered")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False)
    figure.suptitle("Behind the gate at inference; larger dots: larger γ (0.01 to 0.2)")
    return figure


def _preselection(results: Results) -> plt.Figure:
    """Frontiers of students: everything swept, or gamma chosen before."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    lines = {
        "γ, ε ≤ 10 and answers swept": ((None, *TOLERANCES), "tab:red", "-"),
        "γ = 0.01 chosen before": ((0.01,), "tab:green", "--"),
        "γ = 0.05 chosen before": ((0.05,), "tab:blue", "--"),
        "no gate (PATE)": ((None,), "black", ":"),
    }
    for axis, dataset in zip(axes, PAIR, strict=True):
        everything = np.array(joint_points(results, dataset, 10.0, (None, *TOLERANCES)))
        axis.plot(*everything.T, ".", color="lightgrey")
        for label, (tolerances, colour, style) in lines.items():
            points = np.array(frontier(joint_points(results, dataset, 10.0, tolerances)))
            axis.step(*points.T, style, where="post", color=colour, label=label, marker="o", ms=4)
        axis.set(title=TITLES[dataset], xlabel="gap of the student", ylabel="accuracy")
    axes[0].legend(loc="lower right")
    return figure
