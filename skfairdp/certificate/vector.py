"""Pictures for a page that needs nothing else: SVG without links, with words instead."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from skfairdp.certificate.picture import draw_certificate
from skfairdp.certificate.rates import GroupRate
from skfairdp.fairness.guarantee import FairnessGuarantee

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["bounds_picture", "rates_picture"]

BLUE = "#2f6fab"


def bounds_picture(fairness: Sequence[FairnessGuarantee], words: str) -> str | None:
    """Draw every claim's estimate and bound.

    Parameters
    ----------
    fairness : sequence of FairnessGuarantee
        The claims, at least one.
    words : str
        What the picture shows, for those who don't see it.

    Returns
    -------
    str or None
        SVG; None where matplotlib is not installed.
    """

    def draw(figure: Figure) -> None:
        draw_certificate(fairness, ax=figure.subplots())

    return _svg(1.3 + 0.7 * len(fairness), draw, words)


def rates_picture(rates: Sequence[GroupRate], label: str, words: str) -> str | None:
    """Draw the rate of every group with its interval.

    Parameters
    ----------
    rates : sequence of GroupRate
        At least one.
    label : str
        What the rates are.
    words : str
        What the picture shows, for those who don't see it.

    Returns
    -------
    str or None
        SVG; None where matplotlib is not installed.
    """
    return _svg(0.9 + 0.32 * len(rates), lambda figure: _draw_rates(figure, rates, label), words)


def _draw_rates(figure: Figure, rates: Sequence[GroupRate], label: str) -> None:
    ax = figure.subplots()
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
    ax.set_xlabel(label)
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)


def _svg(height: float, draw: Callable[[Figure], None], words: str) -> str | None:
    try:
        import matplotlib
        from matplotlib.figure import Figure  # not pyplot: nobody's figures are touched
    except ImportError:
        return None
    written = io.StringIO()
    # Text stays text, so that it can be read aloud and searched; ids differ between pictures.
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": words, "font.family": "sans-serif"}
    # Labels are what people wrote: a dollar in them is money.
    style |= {"text.parse_math": False, "text.usetex": False}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(7.0, height), layout="constrained")
        draw(figure)
        figure.savefig(written, format="svg", metadata={"Date": None}, transparent=True)
    svg = written.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    # Ids such as "axes_1" occur in every picture of matplotlib and nobody refers to them.
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    name = f'<svg role="img" aria-label="{escape(words, quote=True)}"'
    return svg.replace("<svg", name, 1).strip()
