"""Pictures of a certificate: bounds and rates on axes of matplotlib, and these as SVG."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from skfairdp.certificate.group_rates import GroupRate
from skfairdp.certificate.render.elements import Picture
from skfairdp.certificate.score_counts import CalibrationLine
from skfairdp.fairness.bounds.number_gaps import NumberCells
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.number_notions import MEAN_GAP
from skfairdp.foundation.figures import as_given, percent_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE = "#2f6fab"
WIDTH = 5.2  # narrow, so that labels can be read on phones
FEW_GROUPS = 3  # whose intervals and names do not hide each other


def height_of_bounds(fairness: Sequence[FairnessGuarantee]) -> float:
    """Height of a picture of bounds, in inches."""
    return 1.4 + 0.7 * len(fairness)


def draw_bounds(
    fairness: Sequence[FairnessGuarantee], ax: Axes | None = None, threshold: float | None = None
) -> Axes:
    """Draw each claim's estimate and upper bound, and the largest acceptable difference."""
    if ax is None:
        import matplotlib.pyplot as plt  # only where a picture is shown

        _, ax = plt.subplots(figsize=(WIDTH, height_of_bounds(fairness)), layout="constrained")
    for row, claim in enumerate(fairness):
        _draw_claim(ax, row, claim, labelled=row == 0)
    if threshold is not None:
        ax.axvline(threshold, color="#b3261e", ls="--", label=f"threshold {as_given(threshold)}")
    levels = ["" if (p := c.confidence_level) is None else f", {percent_text(p)}" for c in fairness]
    about = zip(fairness, levels, strict=True)
    names = [f"{c.notion.replace('_', ' ')}\n({c.scope}{level})" for c, level in about]
    ax.set_yticks(range(len(fairness)), names)
    ax.set_ylim(len(fairness) - 0.4, -0.6)
    shown = [c.bound for c in fairness if c.informative]
    shown += [c.estimate for c in fairness if c.estimate is not None]
    shown += [] if threshold is None else [threshold]
    ax.set_xlim(0.0, min(1.0, 1.15 * max(shown, default=1.0)) or 1.0)
    of_means = any(claim.notion == MEAN_GAP for claim in fairness)  # shares of a range, no rates
    ax.set_xlabel(f"largest difference {'' if of_means else 'of rates '}between two groups")
    ax.locator_params(axis="x", nbins=6)
    _add_grid(ax)
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return ax


def _add_grid(ax: Axes) -> None:
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)


def _draw_claim(ax: Axes, row: int, claim: FairnessGuarantee, *, labelled: bool) -> None:
    if claim.informative:
        start = 0.0 if claim.estimate is None else claim.estimate
        ax.plot([start, claim.bound], [row, row], color=BLUE, linewidth=3, solid_capstyle="butt")
        label = "upper bound" if labelled else None
        ax.plot(claim.bound, row, marker="|", markersize=18, mew=3, color=BLUE, label=label)
        place: dict[str, Any] = {"xytext": (0, 11), "textcoords": "offset points", "ha": "center"}
        ax.annotate(claim.figure, (claim.bound, row), **place)
    else:
        left: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "left", "va": "center"}
        ax.annotate(claim.figure, (0.02, row), style="italic", **left)
    if claim.estimate is not None:
        label = "observed" if labelled else None
        circle: dict[str, Any] = {"markerfacecolor": "white", "clip_on": False, "zorder": 3}
        ax.plot(claim.estimate, row, "o", color=BLUE, label=label, **circle)


def draw_rates(rates: Sequence[GroupRate], label: str, ax: Axes) -> None:
    """Draw the rate of every group with its interval."""
    for row, item in enumerate(rates):
        if item.low is not None and item.high is not None:
            ax.plot([item.low, item.high], [row, row], color=BLUE, linewidth=2.5)
        if item.rate is not None:
            ax.plot(item.rate, row, "o", color=BLUE, markerfacecolor="white", markersize=7)
    several = len({item.stratum for item in rates}) > 1
    names = [f"{r.group} ({r.stratum})" if several else r.group for r in rates]
    ax.set_yticks(range(len(rates)), names)
    ax.set_ylim(len(rates) - 0.5, -0.5)
    ax.set_xlim(-0.01, 1.01)
    ax.set_xlabel(textwrap.fill(label, 28))  # names of groups leave little room
    _add_grid(ax)


def draw_shares(rates: Sequence[GroupRate], ax: Axes) -> None:
    """Draw each group's share of predictions at or below each number, which ends its stratum."""
    for group in dict.fromkeys(item.group for item in rates):
        own = [item for item in rates if item.group == group and item.rate is not None]
        numbers = [float(item.stratum.rpartition(" ")[2]) for item in own]
        ax.plot(numbers, [item.rate or 0.0 for item in own], "o-", markersize=4, label=group)
    ax.set(xlabel="prediction", ylabel="share at or below", ylim=(-0.02, 1.02))
    ax.legend()
    _add_grid(ax)


def draw_numbers(cells: NumberCells, labels: Sequence[str], ax: Axes) -> None:
    """Draw a histogram of predicted numbers for every group, as shares of its rows."""
    ends = np.linspace(cells.first[0], cells.last[-1], 25)
    middles = 0.5 * (cells.first + cells.last)
    for label, counts in zip(labels, cells.counts.T, strict=True):
        shares = np.histogram(middles, ends, weights=counts)[0] / max(int(counts.sum()), 1)
        ax.stairs(shares, ends, label=label)
    ax.set(xlabel="prediction", ylabel="share of the group", ylim=(0.0, None))
    ax.legend()
    _add_grid(ax)


def draw_calibration(lines: Sequence[CalibrationLine], ax: Axes) -> None:
    """Draw shares of the positive label against scores for every group, with intervals."""
    ax.plot([0.0, 1.0], [0.0, 1.0], color="#777777", linestyle=":")
    groups = list(dict.fromkeys(line.group for line in lines))
    few = len(groups) <= FEW_GROUPS
    for place, group in enumerate(groups):
        own = [line for line in lines if line.group == group and line.informative]
        # So that intervals do not hide others.
        apart = 0.03 * (place - 0.5 * (len(groups) - 1)) if few else 0.0
        at = [0.5 * (line.least + line.most) + apart for line in own]
        rates = [line.rate or 0.0 for line in own]
        below = [max(0.0, rate - line.low) for rate, line in zip(rates, own, strict=True)]
        above = [max(0.0, line.high - rate) for rate, line in zip(rates, own, strict=True)]
        ends = [below, above] if few else None
        ax.errorbar(at, rates, ends, fmt="o-", markersize=4, capsize=2, label=group)
    ax.set(xlabel="score", ylabel="share with the positive label")
    ax.set(xlim=(0.0, 1.0), ylim=(-0.02, 1.02))
    ax.legend(**({} if few else {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}))
    _add_grid(ax)


def draw_shift(claim: FairnessGuarantee, ax: Axes) -> None:
    """Draw the bound against how far each group's people may differ from those held out."""
    distances = [v / 100 for v in range(26)]
    ax.plot(distances, [claim.shifted(v) for v in distances], color=BLUE)
    ax.set(xlim=(0.0, 0.25), ylim=(0.0, None), ylabel="bound on the gap")
    ax.set_xlabel("total-variation distance of each group's people from those held out")
    ax.grid(alpha=0.3)


def svg(picture: Picture) -> str | None:
    """Draw a picture as SVG without links; None where matplotlib is not installed."""
    try:
        import matplotlib
        from matplotlib.figure import Figure  # not pyplot: figures of others are left alone
    except ImportError:
        return None
    written = io.StringIO()
    # Text stays text, so that it can be read aloud and searched; ids differ between pictures.
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": picture.words}
    # Labels are what people wrote: a dollar in them is money.
    style |= {"font.family": "sans-serif", "text.parse_math": False, "text.usetex": False}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(WIDTH, picture.height), layout="constrained")
        picture.draw(ax=figure.subplots())
        layout = figure.get_layout_engine()
        assert layout is not None
        layout.execute(figure)
        figure.set_layout_engine(None)  # what has its place is drawn once, else twice
        figure.savefig(written, format="svg", metadata={"Date": None}, transparent=True)
    code = written.getvalue()
    code = re.sub(r"<metadata>.*?</metadata>", "", code[code.index("<svg") :], flags=re.DOTALL)
    code = re.sub(r' xmlns(:\w+)?="[^"]*"', "", code).replace("xlink:href", "href")
    # Ids such as "axes_1" occur in every picture of matplotlib and nothing refers to them.
    code = re.sub(r'<g id="[^"]*"', "<g", code)
    name = f'<svg role="img" aria-label="{escape(picture.words, quote=True)}"'
    return code.replace("<svg", name, 1).strip()
