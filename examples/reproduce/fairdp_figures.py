"""Figures of the FairDP tables."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from fairdp_data import TITLES
from fairdp_jobs import EPSILONS, HEAD_NORMS, N_HEADS, RATIOS, SEGMENTS, SHARES
from fairdp_measures import DISTANCES, chosen, column, gaps, shift_estimates
from fairdp_published import TABLE_3

from skfairdp.fairness.bounds.head_noise import theorem2_bound

COLOURS = {0.5: "#b2df8a", 1.0: "#33a02c", 2.0: "#0b5d1e"}
BLUE, ORANGE, GREY, RED = "#1f78b4", "#ff7f00", "#666666", "#c01818"


def draw_figures(rows: list[dict], out: Path) -> dict[str, str]:
    """Draw every figure whose fits are there.

    Parameters
    ----------
    rows : list of dict
        Measured fits.
    out : Path
        Folder of the PNG files.

    Returns
    -------
    dict of str to str
        File names by figure.
    """
    figures = {
        "tradeoff": _tradeoff(rows),
        "shift": _shift(rows),
        "ratio": _ratio(rows),
        "theorem2": _theorem2(rows),
    }
    names = {}
    for name, figure in figures.items():
        if figure is not None:
            names[name] = f"fairdp_{name}.png"
            figure.savefig(out / names[name], dpi=110)
            plt.close(figure)
    return names


def panels(titles: list[str], n_columns: int, size: tuple[float, float]) -> tuple:
    """Figure with one panel for each title, of the given size in inches."""
    n_rows = -(-len(titles) // n_columns)
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=(size[0] * n_columns, size[1] * n_rows + 0.7), squeeze=False
    )
    for ax in axes.flat[len(titles) :]:
        ax.remove()
    for ax, title in zip(axes.flat, titles, strict=False):
        ax.set_title(title, fontsize=11)
        ax.grid(alpha=0.25)
    return figure, list(axes.flat[: len(titles)])


def finish(figure, axes: list, *, n_columns: int = 4) -> None:
    """One legend for all panels, above them."""
    entries = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    lines = -(-len(entries) // n_columns)
    top = 1 - (0.1 + 0.2 * lines) / figure.get_figheight()
    figure.legend(
        entries.values(), entries.keys(), loc="upper center", ncols=n_columns, fontsize=8.5,
        frameon=False,
    )  # fmt: skip
    figure.tight_layout(rect=(0, 0, 1, top))


def _present(rows: list[dict], names: tuple[str, ...], **wanted: object) -> list[str]:
    return [name for name in names if chosen(rows, dataset=name, **wanted)]


def _tradeoff(rows: list[dict]):
    shown = ("adult", "default", "utkface", "law", "abalone", "synthetic")
    names = _present(rows, shown, part="main")
    if not names:
        return None
    figure, axes = panels([TITLES[name] for name in names], 3, (4.1, 3.3))
    for ax, name in zip(axes, names, strict=True):
        clean = chosen(rows, part="main", dataset=name, method="clean")
        if clean:
            # All thresholds of the clean model: what declining more people does by itself.
            curve = np.mean([[_point(t) for t in fit["curve"]] for fit in clean], axis=0)
            ax.plot(*curve.T, color=GREY, lw=1, label="clean model, every threshold")
            ax.plot(*_mean(clean), "s", color=GREY, label="clean model")
        for epsilon in EPSILONS:
            fits = [
                chosen(rows, part="main", dataset=name, method="fairdp", epsilon=epsilon,
                       max_head_norm=norm)
                for norm in HEAD_NORMS
            ]  # fmt: skip
            points = np.array([_mean(fit) for fit in fits if fit])
            if len(points):
                ax.plot(*points.T, "o-", color=COLOURS[epsilon], ms=5,
                        label=f"FairDP, ε = {epsilon:g}, M = .25 to 1")  # fmt: skip
            private = chosen(rows, part="main", dataset=name, method="dpsgd", epsilon=epsilon)
            if private:
                ax.plot(*_mean(private), "D", color=COLOURS[epsilon], mec="black", mew=0.6, ms=5,
                        label=f"DPSGD, ε = {epsilon:g}")  # fmt: skip
        for method, marker, label in (
            ("exponentiated_gradient", "^", "ExponentiatedGradient, not private"),
            ("threshold_optimizer", "v", "ThresholdOptimizer, not private"),
        ):
            fits = chosen(rows, dataset=name, method=method)
            if fits:
                ax.plot(*_mean(fits), marker, color=BLUE, ms=6, ls="", label=label)
        if name in TABLE_3:
            points = np.array([(value[2], value[1]) for value in TABLE_3[name].values()])
            ax.plot(*points.T, "x", color=RED, ms=6, mew=1.6, ls="",
                    label="FairDP as published, ε = 1")  # fmt: skip
        ax.set_xlabel("parity gap")
        ax.set_ylabel("accuracy")
        # Of the curve only what is near the points; beyond, it declines the frequent label.
        lines = [line for line in ax.get_lines() if len(line.get_xdata()) < len(SHARES)]
        heights = np.concatenate([line.get_ydata() for line in lines])
        widths = np.concatenate([line.get_xdata() for line in lines])
        ax.set_ylim(heights.min() - 0.01, heights.max() + 0.01)
        ax.set_xlim(-0.04 * widths.max(), 1.2 * widths.max())
    finish(figure, axes, n_columns=3)
    return figure


def _point(table: list) -> tuple[float, float]:
    measured = gaps(np.array(table, dtype=float))
    return measured["parity"], measured["accuracy"]


def _mean(fits: list[dict]) -> tuple[float, float]:
    return float(column(fits, "parity").mean()), float(column(fits, "accuracy").mean())


def _shift(rows: list[dict]):
    names = _present(
        rows, ("adult", "default", "utkface", "law"), part="main", method="fairdp", epsilon=1.0
    )
    if not names:
        return None
    figure, axes = panels([TITLES[name] for name in names], 2, (4.6, 3.2))
    for ax, name in zip(axes, names, strict=True):
        ours = shift_estimates(rows, name, "fairdp", 1.0)
        ax.fill_between(DISTANCES, *np.quantile(ours, (0.05, 0.95), axis=1), color=BLUE, alpha=0.2,
                        label="5 % to 95 % of the resampled test parts")  # fmt: skip
        ax.plot(DISTANCES, ours.mean(axis=1), "o-", color=BLUE, label="estimate, FairDP")
        clean = shift_estimates(rows, name, "clean", None)
        ax.plot(DISTANCES, clean.mean(axis=1), "s:", color=GREY, label="estimate, clean model")
        fits = chosen(rows, part="main", dataset=name, method="fairdp", epsilon=1.0,
                      max_head_norm=1.0)  # fmt: skip
        tau = np.array([fit["tau_emp"]["tau"]["parity"] for fit in fits])
        for values, colour, label in (
            (column(fits, "certified_bound"), "black", "certificate: 95 % bound, rows held out"),
            (tau, ORANGE, "τ_emp: training rows, released with ε' = 0.1"),
        ):
            ax.axhline(values.mean(), color=colour, label=label, lw=1.6)
            if len(values) > 1:
                ax.axhspan(values.mean() - values.std(ddof=1), values.mean() + values.std(ddof=1),
                           color=colour, alpha=0.12, lw=0)  # fmt: skip
        ax.set_xlabel("total variation of the (label, group) shares")
        ax.set_ylabel("parity gap")
        ax.set_ylim(bottom=0)
        ax.set_xticks(DISTANCES)
    finish(figure, axes, n_columns=2)
    return figure


def _ratio(rows: list[dict]):
    names = _present(rows, ("adult", "default", "law"), part="ratio")
    if not names:
        return None
    titles = [TITLES[name] for name in names]
    figure, axes = panels(titles + [""] * len(names), len(names), (3.6, 2.6))
    for index, name in enumerate(names):
        for ax, what in (
            (axes[index], "accuracy"),
            (axes[index + len(names)], "parity"),
        ):
            for epsilon in EPSILONS:
                fits = [
                    chosen(rows, part="ratio", dataset=name, epsilon=epsilon, ratio=ratio)
                    for ratio in RATIOS
                ]
                values = [(r, column(f, what)) for r, f in zip(RATIOS, fits, strict=True) if f]
                ax.errorbar(
                    [ratio for ratio, _ in values],
                    [v.mean() for _, v in values],
                    [v.std(ddof=1) if len(v) > 1 else 0.0 for _, v in values],
                    fmt="o-", color=COLOURS[epsilon], capsize=3, ms=4,
                    label=f"FairDP, ε = {epsilon:g}, M = 1",
                )  # fmt: skip
            ax.set_xticks(RATIOS)
            ax.set_xlabel("ρ")
            ax.set_ylabel("parity gap" if what == "parity" else what)
    finish(figure, axes, n_columns=3)
    return figure


def _theorem2(rows: list[dict]):
    """The corrected bound against the noise multiplier, for both forms of the update."""
    later = "later version (group means): M = C = 1, η = 0.005,\nbatches of 339 + 685 (Adult above)"
    first = (
        f"first version (group sums): M = {SEGMENTS['max_head_norm']}, "
        f"C = {SEGMENTS['max_grad_norm']}, η = 1,\nbatches of 2 + 2"
    )
    figure, axes = panels([later, first], 2, (5.0, 3.5))
    sigma = {0: np.geomspace(0.3, 1e7, 400), 1: np.geomspace(0.3, 300, 300)}
    clip, weight = SEGMENTS["max_grad_norm"], SEGMENTS["max_head_norm"]
    for index, ax in enumerate(axes):
        for prediction, style in (("score_mean", "-"), ("vote", "-."), ("gibbs", "--")):
            for n_heads in (1, N_HEADS):
                if n_heads == 1 and prediction != "score_mean":
                    continue
                bounds = [
                    theorem2_bound(
                        max_head_norm=1.0, max_grad_norm=1.0, learning_rate=0.005,
                        noise_std=s / 2 * np.hypot(1 / 339, 1 / 685), n_heads=n_heads,
                        prediction=prediction,
                    )
                    if index == 0
                    else theorem2_bound(
                        max_head_norm=weight, max_grad_norm=clip, learning_rate=1.0,
                        noise_std=clip * s / np.sqrt(2), n_heads=n_heads, prediction=prediction,
                        group_update="sum", expected_batch_size=4.0, n_groups=2,
                    )
                    for s in sigma[index]
                ]  # fmt: skip
                one = n_heads == 1
                ax.plot(
                    sigma[index], bounds, "-" if one else style, color="black" if one else BLUE,
                    label="one head" if one else f"{N_HEADS} heads, {prediction}",
                )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlabel("noise multiplier σ")
        ax.set_ylabel("bound on the gap of averaged rates")
        ax.title.set_fontsize(9.5)
    for ax, part in zip(axes, ("main", "segments"), strict=True):
        used = column(chosen(rows, part=part, method="fairdp"), "noise_multiplier")
        used = used[used > 0]
        if len(used):
            ax.axvspan(used.min(), used.max(), color=ORANGE, alpha=0.2, lw=0,
                       label="σ of the fits on this page")  # fmt: skip
    finish(figure, axes, n_columns=5)
    return figure
