"""Figures of the comparison: 3 to 5 of seed 000, and the private frontier."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from baselines_jobs import (
    BOUNDS,
    DATASETS,
    FRONTIER,
    FRONTIER_EPSILONS,
    METHODS,
    NOTIONS,
    REDUCTION,
    SHOWN,
    WORDS,
)
from fairdp_data import TITLES
from fairdp_figures import finish, panels
from fairdp_jobs import EPSILONS
from fairdp_measures import chosen, column

# Marker and colour of the rows that are drawn; FM as published would stretch the axes.
LOOKS = {
    "clean": ("s", "#666666"),
    "fairsmooth": ("P", "#666666"),
    "dpsgd": ("o", "#1f78b4"),
    "dpsgd_smooth": ("P", "#1f78b4"),
    "dpsgdf": ("v", "#6a3d9a"),
    "dp_is_sgd": ("^", "#b15928"),
    "fm": ("D", "#33a02c"),
    "fairfm": ("d", "#8fbc3f"),
    "fairfm_smooth": ("p", "#8fbc3f"),
    "dp_fermi": ("X", "#e7298a"),
    "dp_fermi_strong": ("X", "#a0145c"),
    "fairdp": ("h", "#ff7f00"),
    "rate": ("*", "#c01818"),
}
ASKED_PARITY = {"method": "rate", "notion": "demographic_parity"}
SIZES = {0.5: 18, 1.0: 42, 2.0: 80}


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
        "accuracy": _tradeoff(rows, "accuracy"),
        "auc": _tradeoff(rows, "auc"),
        "relative": _relative(rows),
        "frontier": _frontier(rows),
    }
    names = {}
    for name, figure in figures.items():
        if figure is not None:
            names[name] = f"baselines_{name}.png"
            figure.savefig(out / names[name], dpi=110)
            plt.close(figure)
    return names


def fits_of(
    rows: list[dict], dataset: str, method: str, epsilon: float | None, gap: str = "parity"
) -> list[dict]:
    """Fits of a row at a budget; of RateConstrained those that were asked for the gap."""
    wanted = {"tolerance": SHOWN, "notion": NOTIONS[gap]} if method == "rate" else {}
    return chosen(rows, dataset=dataset, method=method, epsilon=epsilon, **wanted)


def _shown(rows: list[dict]) -> list[str]:
    return [name for name in DATASETS if chosen(rows, dataset=name)]


def _tradeoff(rows: list[dict], utility: str):
    """Figures 3 and 4 of seed 000: gaps against utility."""
    names = _shown(rows)
    if not names:
        return None
    notions = tuple(NOTIONS)[:3]
    titles = [f"{TITLES[name]}, {WORDS[notion]}" for name in names for notion in notions]
    figure, axes = panels(titles, len(notions), (4.1, 3.5))
    for index, ax in enumerate(axes):
        name, notion = names[index // len(notions)], notions[index % len(notions)]
        for method, (marker, colour) in LOOKS.items():
            budgets = EPSILONS if METHODS[method].private else (None,)
            for epsilon in budgets:
                fits = fits_of(rows, name, method, epsilon, notion)
                if not fits:
                    continue
                # Smaller and darker: a smaller budget, as in the paper.
                shade = mpl.colors.to_rgb(colour)
                if epsilon is not None:
                    shade = tuple(0.6 * c for c in shade) if epsilon == EPSILONS[0] else shade
                ax.scatter(
                    column(fits, utility).mean(), column(fits, notion).mean(), marker=marker,
                    s=SIZES.get(epsilon, 60) * (2 if method == "rate" else 1),
                    color=shade, edgecolor="black", lw=0.4, alpha=0.85,
                    label=METHODS[method].title if epsilon in (None, EPSILONS[-1]) else None,
                    zorder=3 if method == "rate" else 2,
                )  # fmt: skip
        ax.set_xlabel("accuracy" if utility == "accuracy" else "ROC-AUC")
        ax.set_ylabel("gap")
        ax.set_ylim(0.0, 1.06 * ax.get_ylim()[1])
    finish(figure, axes, n_columns=6)
    return figure


def _relative(rows: list[dict]):
    """Figure 5 of seed 000: utility lost and fairness gained against DP-IS-SGD."""
    names = [name for name in _shown(rows) if chosen(rows, dataset=name, method="dp_is_sgd")]
    if not names:
        return None
    whats = {"accuracy": "accuracy drop", "auc": "AUC drop", "parity": "parity gain",
             "opportunity": "opportunity gain", "odds": "odds gain"}  # fmt: skip
    figure, axes = panels([TITLES[name] for name in names], len(names), (6.2, 3.6))
    places = np.arange(len(whats))
    for ax, name in zip(axes, names, strict=True):
        bars = [(method, epsilon) for method in ("fairdp", "rate") for epsilon in EPSILONS]
        for index, (method, epsilon) in enumerate(bars):
            base = fits_of(rows, name, "dp_is_sgd", epsilon)
            ours = {
                what: fits_of(rows, name, method, epsilon, what if what in NOTIONS else "parity")
                for what in whats
            }
            if not base or not all(ours.values()):
                continue
            heights = [
                100 * (1 - column(ours[what], what).mean() / column(base, what).mean())
                for what in whats
            ]
            strength = 0.35 + 0.325 * EPSILONS.index(epsilon)
            ax.bar(
                places + 0.13 * (index - (len(bars) - 1) / 2), heights, 0.12,
                color=LOOKS[method][1], alpha=strength,
                label=f"{METHODS[method].title}, ε = {epsilon:g}",
            )  # fmt: skip
        ax.axhline(0, color="black", lw=0.8)
        ax.set_xticks(places, [what.replace(" ", "\n") for what in whats.values()], fontsize=8.5)
        ax.set_ylabel("percent of DP-IS-SGD's figure")
    finish(figure, axes, n_columns=3)
    return figure


def _frontier(rows: list[dict]):
    """RateConstrained against fairlearn's reduction, which is not private."""
    names = [name for name in _shown(rows) if chosen(rows, dataset=name, method="rate")]
    if not names:
        return None
    figure, axes = panels([TITLES[name] for name in names], len(names), (5.2, 3.9))
    colours = {0.5: "#f4a582", 1.0: "#c01818"}
    for ax, name in zip(axes, names, strict=True):
        cases = [{"method": REDUCTION, "tolerance": bound} for bound in BOUNDS]
        _line(ax, rows, name, cases, fmt="^-", color="#1f78b4", ms=5,
              label="ExponentiatedGradient, not private")  # fmt: skip
        for epsilon in FRONTIER_EPSILONS:
            cases = [{"epsilon": epsilon, "tolerance": t, **ASKED_PARITY} for t in FRONTIER]
            _line(ax, rows, name, cases, fmt="*-", color=colours[epsilon], ms=8,
                  label=f"RateConstrained, ε = {epsilon:g}")  # fmt: skip
        # The other rows, as far as they lie in the picture of these lines.
        limits = ax.get_xlim()[1], ax.get_ylim()
        for method, (marker, colour) in LOOKS.items():
            fits = fits_of(rows, name, method, 1.0)
            if fits and method != "rate":
                ax.plot(column(fits, "parity").mean(), column(fits, "accuracy").mean(), marker,
                        ms=5, color=colour, label=f"{METHODS[method].title}, ε = 1")  # fmt: skip
        ax.set_xlim(0.0, limits[0])
        ax.set_ylim(limits[1])
        ax.set_xlabel("parity gap, test rows")
        ax.set_ylabel("accuracy")
    finish(figure, axes, n_columns=4)
    return figure


def _line(ax, rows: list[dict], name: str, cases: list[dict], **look: object) -> None:
    """Means over seeds, with bars of one standard deviation."""
    fits = [found for case in cases if (found := chosen(rows, dataset=name, **case))]
    if not fits:
        return
    (x, dx), (y, dy) = (
        np.array([(v.mean(), v.std(ddof=1) if len(v) > 1 else 0.0) for v in values]).T
        for values in ([column(f, what) for f in fits] for what in ("parity", "accuracy"))
    )
    ax.errorbar(x, y, xerr=dx, yerr=dy, elinewidth=0.7, alpha=0.9, **look)
