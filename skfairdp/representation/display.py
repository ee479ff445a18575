"""Display of fair codes on held-out rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skfairdp.certificate import Certificate
from skfairdp.certificate.sentence import certainty
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.scopes import DOWNSTREAM, DOWNSTREAM_LIKE
from skfairdp.foundation.figures import rounded_up
from skfairdp.inprocessing.fair_path.display import PanelDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class TotalVariationDisplay(PanelDisplay):
    """Frequencies of the codes by group, and the bound that follows for every predictor.

    Make one with `from_certificate`.

    Parameters
    ----------
    claim : FairnessGuarantee
        Bound on whatever is predicted from the code, for people like those held out, with the
        number of each group's rows that have each code.
    any_population : float
        Bound for any population: a difference of rates, from 0 to 1.

    Examples
    --------
    >>> from skfairdp import PrivateFairEncoder
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> from skfairdp.representation import TotalVariationDisplay
    >>> data = make_biased_gaussians(n_samples=1000, random_state=0)
    >>> X, y, groups = data.data.to_numpy(), data.target, data.sensitive_features
    >>> encoder = PrivateFairEncoder(
    ...     objective="fair_codes", noise="randomized_response", max_epochs=1
    ... )
    >>> _ = encoder.fit(X[:500], y[:500], sensitive_features=groups[:500])
    >>> held_out = {"sensitive_features": groups[500:], "holdout": "public"}
    >>> display = TotalVariationDisplay.from_certificate(encoder.certify(X[500:], **held_out))
    >>> display.ax_.get_ylabel(), 0.0 <= display.any_population <= 1.0
    ('share of the group, before noise', True)
    """

    def __init__(self, claim: FairnessGuarantee, any_population: float) -> None:
        self.claim = claim
        self.any_population = any_population

    @classmethod
    def from_certificate(
        cls, certificate: Certificate, *, notion: str | None = None, ax: Axes | None = None
    ) -> TotalVariationDisplay:
        """Draw the bounds of a certificate of fair codes.

        Parameters
        ----------
        certificate : Certificate
            Made with held-out rows and their groups.
        notion : str or None, default=None
            Which of its notions; None takes the first one.
        ax : matplotlib.axes.Axes or None, default=None
            Panel to draw in; None makes a figure with one.

        Returns
        -------
        TotalVariationDisplay
            Drawn: `ax_` and `figure_` hold the picture.

        Raises
        ------
        ValueError
            The certificate has no bound on whatever is predicted from a code.
        """
        claims = [c for c in certificate.fairness if notion in (None, c.notion)]
        bounds = {claim.scope: claim for claim in reversed(claims)}
        if DOWNSTREAM_LIKE not in bounds:
            raise ValueError(
                f"The certificate has no bound of the scope {DOWNSTREAM_LIKE!r}: certify fair "
                "codes with held-out rows and their groups."
            )
        everywhere = bounds[DOWNSTREAM].bound if DOWNSTREAM in bounds else 1.0
        return cls(bounds[DOWNSTREAM_LIKE], everywhere).plot(ax)

    def _draw(self, ax: Axes) -> None:
        claim = self.claim
        codes = list(dict.fromkeys(count.stratum for count in claim.counts))
        places, width = np.arange(len(codes)), 0.8 / len(claim.groups)
        for i, group in enumerate(claim.groups):
            shares = [c.successes / max(c.trials, 1) for c in claim.counts if c.group == group]
            ax.bar(places + i * width, shares, width, label=str(group))
        ax.set_xticks(places + 0.4 - width / 2.0, codes)
        ax.set(
            ylabel="share of the group, before noise",
            title=f"Gap of whatever is predicted from one release: ≤ {rounded_up(claim.bound)}\n"
            f"({certainty(claim)}); for any population: ≤ {rounded_up(self.any_population)}",
        )
