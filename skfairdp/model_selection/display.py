"""The frontier as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skfairdp.foundation.documentation import completed_by
from skfairdp.model_selection import frontier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

MARKERS = "osD^vP*Xhd<>"


@dataclass(eq=False, repr=False)
class ParetoDisplay:
    """Accuracy against the gap, with epsilon as colour; one panel for each notion.

    Make one with `from_results` or `from_search`.

    Parameters
    ----------
    results : DataFrame of shape (n_models, n_columns)
        One row a model; the columns that are drawn hold numbers. "epsilon", in nats, is the colour;
        models whose epsilon is missing, 0 or infinite are grey.
    gaps : sequence of str
        Columns that hold gaps, differences of rates from 0 to 1; one panel each.
    value : str
        Column of which more is better, on the vertical axis.
    label : str or None, default=None
        Column that names what a marker stands for, such as the mechanism.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure that was drawn last.
    axes_ : ndarray of shape (n_gaps,) of matplotlib.axes.Axes
        Its panels.

    Examples
    --------
    >>> from skfairdp.model_selection import ParetoDisplay
    >>> models = [
    ...     {"mechanism": "a", "accuracy": 0.83, "gap": 0.02, "epsilon": 1.0},
    ...     {"mechanism": "b", "accuracy": 0.85, "gap": 0.16, "epsilon": 1.0},
    ... ]
    >>> display = ParetoDisplay.from_results(models, label="mechanism")
    >>> display.axes_[0].get_xlabel()
    'gap'
    """

    results: pd.DataFrame
    gaps: Sequence[str]
    value: str
    label: str | None = None
    figure_: Figure = field(init=False)
    axes_: np.ndarray = field(init=False)
    _colours: ListedColormap = field(init=False)

    @classmethod
    def from_results(
        cls,
        results: Any,
        *,
        gaps: Sequence[str] | None = None,
        value: str | None = None,
        label: str | None = None,
        ax: Axes | None = None,
    ) -> ParetoDisplay:
        """Draw results.

        Parameters
        ----------
        results : DataFrame of shape (n_models, n_columns), iterable of mappings, or object with \
                ``to_frame``
            One row a model.
        gaps : sequence of str, optional
            Columns that hold gaps. None: all that have a known name.
        value : str, optional
            Column on the vertical axis. None: the first of "accuracy", "auc",
            "coverage", "value" that is there.
        label : str, optional
            Column that names what a marker stands for.
        ax : matplotlib.axes.Axes, optional
            Where to draw a single panel; None makes a new figure.

        Returns
        -------
        ParetoDisplay
            Drawn: `axes_` and `figure_` hold the picture.

        Raises
        ------
        ValueError
            If `results` lack a gap, an accuracy or a named column, if one holds no numbers, or
            if there are several gaps for the one panel `ax`.
        """
        frame, gaps, values = frontier.measured(results, gaps, None if value is None else [value])
        frontier.directions(frame, values[:1], gaps)
        return cls(frame, gaps, values[0], label).plot(ax=ax)

    @classmethod
    @completed_by(from_results)
    def from_search(
        cls, search: Any, *, label: str | None = None, ax: Axes | None = None
    ) -> ParetoDisplay:
        """Draw the points of a fitted search.

        Parameters
        ----------
        search : fitted search
            One of scikit-learn with an accuracy and at least one gap among its scorers, or
            a `PrivateSearchCV`, of which nothing but the winner is known.
        label : str, optional
            Searched parameter that the markers distinguish.
        """
        return cls.from_results(frontier.results_of_search(search), label=label, ax=ax)

    @completed_by(from_results)
    def plot(self, *, ax: Axes | None = None) -> ParetoDisplay:
        """Draw the panels."""
        import matplotlib.pyplot as plt
        from matplotlib import colormaps
        from matplotlib.colors import ListedColormap, LogNorm

        if ax is not None and len(self.gaps) > 1:
            raise ValueError(f"ax holds one panel, but there are {len(self.gaps)} gaps.")
        if ax is None:
            width = 1.2 + 3.6 * len(self.gaps)
            self.figure_, axes = plt.subplots(
                1, len(self.gaps), figsize=(width, 3.8), sharey=True, squeeze=False,
                layout="constrained",
            )  # fmt: skip
            self.axes_ = axes[0]
        else:
            self.figure_, self.axes_ = ax.get_figure(), np.array([ax])  # type: ignore[assignment]
        epsilon = np.full(len(self.results), np.nan)
        if "epsilon" in self.results:
            epsilon = self.results["epsilon"].to_numpy(dtype=np.float64)
        finite = epsilon[np.isfinite(epsilon) & (epsilon > 0)]
        low, high = (finite.min(), finite.max()) if finite.size else (1.0, 1.0)
        alike = low == high
        scale = LogNorm(0.5 * low if alike else low, 2.0 * high if alike else high)
        # Without its yellow end, which is hard to see on white.
        self._colours = ListedColormap(colormaps["plasma"](np.linspace(0.0, 0.8, 256)))
        drawn = None
        for panel, gap in zip(self.axes_, self.gaps, strict=True):
            drawn = self._panel(panel, gap, epsilon, scale) or drawn
        self.axes_[0].set_ylabel(self.value, parse_math=False)
        if self.label is not None:
            handles, names = self.axes_[0].get_legend_handles_labels()
            look: dict[str, Any] = {"fontsize": "small", "title_fontsize": "small"}
            if ax is None:  # below the panels, where no model is
                columns = min(len(names), 2 * len(self.gaps) + 1)
                look |= {"loc": "outside lower center", "ncols": columns}
            legend = (ax or self.figure_).legend(handles, names, title=self.label, **look)
            for text in (legend.get_title(), *legend.get_texts()):
                text.set_parse_math(False)  # names are what people wrote
        if drawn is not None:
            bar = self.figure_.colorbar(drawn, ax=list(self.axes_), label="ε")
            ticks = np.unique(finite)
            if ticks.size <= 8:
                bar.set_ticks(ticks.tolist(), labels=[f"{tick:g}" for tick in ticks])
                bar.ax.minorticks_off()
        return self

    def _panel(self, panel: Axes, gap: str, epsilon: np.ndarray, scale: Any) -> Any:
        frame, drawn = self.results, None
        names = pd.Series("", frame.index) if self.label is None else frame[self.label].astype(str)
        groups: list[Any] = [(name, (names == name).to_numpy()) for name in dict.fromkeys(names)]
        private = np.isfinite(epsilon) & (epsilon > 0)
        for i, (name, chosen) in enumerate(groups):
            look: dict[str, Any] = {"marker": MARKERS[i % len(MARKERS)], "s": 36, "alpha": 0.9}
            for part, colour in ((chosen & private, True), (chosen & ~private, False)):
                if not part.any():
                    continue
                tint: dict[str, Any] = {"facecolors": "none", "edgecolors": "grey"}
                if colour:
                    tint = {"c": epsilon[part], "norm": scale, "cmap": self._colours}
                x, y = frame.loc[part, gap], frame.loc[part, self.value]
                made = panel.scatter(x, y, label=name, **look, **tint)
                name, drawn = None, made if colour else drawn  # named once
        for level in np.unique(epsilon[private]):
            best = frontier.pareto_frontier(
                frame[epsilon == level], maximize=[self.value], minimize=[gap]
            ).sort_values(gap)
            panel.step(best[gap], best[self.value], where="post", color="grey", lw=0.7, zorder=0)
        panel.set_xlabel(gap.replace("_", " "), parse_math=False)
        panel.grid(alpha=0.3)
        return drawn
