"""A certificate as a picture: observed differences and what they may truly be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skfairdp.certificate.wording import confidence
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.figures import as_given

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_certificate"]


def draw_certificate(
    fairness: Sequence[FairnessGuarantee],
    *,
    ax: Axes | None = None,
    threshold: float | None = None,
) -> Axes:
    """Draw each claim's estimate and upper bound on one axis.

    Parameters
    ----------
    fairness : sequence of FairnessGuarantee
        The claims.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a new figure.
    threshold : float, optional
        Largest acceptable difference, drawn as a line.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        When there is no fairness claim to draw.
    """
    if not fairness:
        raise ValueError(
            "The certificate has no fairness claim to draw; certify with held-out rows and "
            "their sensitive_features."
        )
    import matplotlib.pyplot as plt  # only where a picture is wanted

    if ax is None:
        height = 1.4 + 0.7 * len(fairness)
        _, ax = plt.subplots(figsize=(7.0, height), layout="constrained")
    for row, claim in enumerate(fairness):
        _draw_claim(ax, row, claim, labelled=row == 0)
    if threshold is not None:
        ax.axvline(
            threshold, color="#b3261e", linestyle="--", label=f"threshold {as_given(threshold)}"
        )
    names = [f"{c.notion.replace('_', ' ')}\n({_scope(c)})" for c in fairness]
    ax.set_yticks(range(len(fairness)), names)
    ax.set_ylim(len(fairness) - 0.4, -0.6)
    shown = [c.bound for c in fairness if c.informative]
    shown += [c.estimate for c in fairness if c.estimate is not None]
    shown += [] if threshold is None else [threshold]
    ax.set_xlim(0.0, min(1.0, 1.15 * max(shown, default=1.0)) or 1.0)
    ax.set_xlabel("largest difference of rates between two groups")
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return ax


def _scope(claim: FairnessGuarantee) -> str:
    """Say scope and confidence of a claim."""
    if claim.confidence_level is None:
        return claim.scope
    return f"{claim.scope}, {confidence(claim)}"


def _draw_claim(ax: Axes, row: int, claim: FairnessGuarantee, *, labelled: bool) -> None:
    start = 0.0 if claim.estimate is None else claim.estimate
    colour = "#2f6fab"
    if claim.informative:
        ax.plot([start, claim.bound], [row, row], color=colour, linewidth=3, solid_capstyle="butt")
        label = "upper bound" if labelled else None
        ax.plot(claim.bound, row, marker="|", markersize=18, mew=3, color=colour, label=label)
        ax.annotate(
            claim.figure,
            (claim.bound, row),
            xytext=(0, 11),
            textcoords="offset points",
            ha="center",
        )
    else:
        ax.annotate(
            "no useful bound",
            (0.02, row),
            xycoords=("axes fraction", "data"),
            ha="left",
            va="center",
            style="italic",
        )
    if claim.estimate is not None:
        label = "observed" if labelled else None
        ax.plot(claim.estimate, row, "o", color=colour, markerfacecolor="white", label=label)
