"""Mutual information of two discrete variables from their table of counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import mutual_info_score

from skfairdp.fairness.groups import encode_groups
from skfairdp.fairness.information import MutualInformation


def plug_in(
    Z: ArrayLike | pd.Series | pd.DataFrame,
    s: ArrayLike | pd.Series | pd.DataFrame,
    *,
    miller_madow: bool = True,
    units: str = "nats",
) -> MutualInformation:
    """Estimate I(S; Z) of discrete variables by the shares of the rows.

    Parameters
    ----------
    Z, s : array-like, Series or DataFrame of shape (n_rows,) or (n_rows, k)
        Labels of any hashable type; several columns are intersected.
    miller_madow : bool, default=True
        Subtract the leading term of the bias. Without it the estimate is too high by about
        ``(|Z| - 1)(|S| - 1)/(2n)`` nats, also for independent variables.
    units : {"nats", "bits"}, default="nats"
        Unit of the result.

    Returns
    -------
    MutualInformation
        With method "plug_in".

    Raises
    ------
    ValueError
        For missing values, different lengths or unknown units.

    Notes
    -----
    Each entropy is corrected by (occupied cells - 1)/(2n), after Miller (1955) and Madow. The
    correction is good while cells hold several rows each; with most cells at one or no row no
    estimator of this kind is sound (:func:`mutual_information` then takes another).

    References
    ----------
    Miller, "Note on the bias of information estimates", 1955. Paninski, "Estimation of Entropy and
    Mutual Information", Neural Computation 15 (2003), section 4.

    Examples
    --------
    >>> from skfairdp.metrics import plug_in
    >>> plug_in([0, 0, 1, 1], ["a", "a", "b", "b"], miller_madow=False, units="bits").value
    1.0
    """
    n_rows = len(np.asarray(Z))
    left = encode_groups(Z, n_rows=n_rows, name="Z")
    right = encode_groups(s, n_rows=n_rows, name="s")
    unclipped = table_information(
        contingency(left.codes, right.codes, len(right.labels)), miller_madow
    )
    return MutualInformation(
        value=max(0.0, unclipped),
        method="plug_in",
        units="nats",
        reason=(
            f"Shares of a table of {len(left.labels)} x {len(right.labels)} cells"
            + (", bias corrected after Miller and Madow." if miller_madow else ", bias kept.")
        ),
        n_rows=n_rows,
        unclipped=unclipped,
    ).to(units)


def contingency(
    left: NDArray[np.int64], right: NDArray[np.int64], n_right: int
) -> NDArray[np.int64]:
    """Counts of each pair of codes, shape (n_left, n_right)."""
    return np.bincount(left * n_right + right, minlength=(int(left.max()) + 1) * n_right).reshape(
        -1, n_right
    )


def table_information(counts: NDArray[np.int64], miller_madow: bool) -> float:
    """Mutual information of the two sides of a table of counts, nats."""
    value = mutual_info_score(None, None, contingency=counts)
    cells, left, right = map(np.count_nonzero, (counts, counts.sum(axis=1), counts.sum(axis=0)))
    return float(value - miller_madow * (cells - left - right + 1) / (2.0 * counts.sum()))
