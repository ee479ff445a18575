"""Pictures on one panel, and the path as one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from skfairdp.foundation.documentation import complete_docstrings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class PanelDisplay:
    """Template of a picture on one panel.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        The panel that was drawn last.
    figure_ : matplotlib.figure.Figure
        Its figure.
    """

    ax_: Axes
    figure_: Figure
    _released = ("ax_", "figure_")

    def __init_subclass__(cls) -> None:
        complete_docstrings(cls)

    def _draw(self, ax: Axes) -> None:
        raise NotImplementedError

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib.axes.Axes or None, default=None
            Panel to draw in; None makes a figure with one.

        Returns
        -------
        self
            With `ax_` and `figure_`; ``display.figure_.savefig("path.png")`` writes a file.

        Raises
        ------
        ModuleNotFoundError
            If matplotlib is not installed.
        """
        if ax is None:
            import matplotlib.pyplot as plt  # only for a picture

            _, ax = plt.subplots(layout="constrained")
        self._draw(ax)
        ax.legend()
        figure = ax.get_figure(root=True)
        assert figure is not None
        self.ax_, self.figure_ = ax, figure
        return self


class FairPathDisplay(PanelDisplay):
    """Plot of estimated accuracy against the kept tolerance, with bounds from held-out rows.

    Make one with `from_estimator`. Both axes go from 0 to 1: a gap is a difference of rates.

    Parameters
    ----------
    path : DataFrame of shape (n_points, n_columns)
        As `skfairdp.FairPathClassifier.path` returns it. The columns "multiplier", "tolerance",
        "accuracy" and "accuracy_std" are read, all of float64.
    at : float or None, default=None
        Multiplier of the point in use; None marks none.
    certificates : mapping of float to Certificate or None, default=None
        Certificates by tolerance, as `skfairdp.FairPathClassifier.certify_path` returns them.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfairdp.inprocessing import FairPathDisplay
    >>> path = pd.DataFrame(
    ...     {
    ...         "multiplier": [0.4, 0.0],
    ...         "tolerance": [0.05, 0.2],
    ...         "accuracy": [0.81, 0.84],
    ...         "accuracy_std": [0.004, 0.003],
    ...     }
    ... )
    >>> display = FairPathDisplay(path, at=0.4).plot()
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('gap', 'accuracy, estimated from the table')
    """

    def __init__(
        self,
        path: pd.DataFrame,
        at: float | None = None,
        certificates: Mapping[float, Any] | None = None,
    ) -> None:
        self.path = path
        self.at = at
        self.certificates = certificates

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        certificates: Mapping[float, Any] | None = None,
        ax: Axes | None = None,
    ) -> FairPathDisplay:
        """Draw the path of a fitted classifier.

        Parameters
        ----------
        estimator : FairPathClassifier
            Fitted.
        certificates : mapping of float to Certificate or None, default=None
            Of points of this path, by tolerance.
        ax : matplotlib.axes.Axes or None, default=None
            Panel to draw in; None makes a figure with one.

        Returns
        -------
        FairPathDisplay
            Drawn: `ax_` and `figure_` hold the picture.

        Raises
        ------
        NotFittedError
            If `estimator` is not fitted.
        """
        return cls(estimator.path(), estimator.multiplier_, certificates).plot(ax)

    def _draw(self, ax: Axes) -> None:
        # What `at` answers: the last point of each tolerance.
        path = self.path.drop_duplicates("tolerance", keep="last")
        if not path["tolerance"].is_monotonic_increasing:
            path = path.iloc[1:]  # the start, which no tolerance is answered with
        low, high = (path["accuracy"] + side * path["accuracy_std"] for side in (-1.0, 1.0))
        ax.fill_between(path["tolerance"], low, high, alpha=0.2, linewidth=0.0)
        ax.plot(path["tolerance"], path["accuracy"], label="tolerance kept, training rows")
        used = self.path[self.path["multiplier"] == self.at]
        ax.plot(used["tolerance"], used["accuracy"], "o", color="black", label="in use")
        for place, (tolerance, certificate) in enumerate((self.certificates or {}).items()):
            (claim,) = certificate.fairness
            kept = path[path["tolerance"] <= tolerance]
            accuracy = float((kept if len(kept) else path.iloc[:1])["accuracy"].iloc[-1])
            ax.plot(
                [claim.estimate, claim.bound],
                [accuracy, accuracy],
                color="tab:red",
                marker="|",
                label="held-out rows: gap seen, and bound" if place == 0 else None,
            )
        ax.set(xlabel="gap", ylabel="accuracy, estimated from the table")
