"""Meaning and units of an estimate of mutual information."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class MutualInformation:
    """Estimate of mutual information, with its bounds and errors.

    Parameters
    ----------
    value : float
        The estimate in `units`, at least 0.
    method : str
        "plug_in", "nearest_neighbours", "mine" or "classifier" (whose value estimates a lower
        bound).
    units : {"nats", "bits"}
        Unit of all figures.
    reason : str
        What the method is and why it was taken, in one sentence.
    n_rows : int
        Rows that the figure rests on.
    unclipped : float
        The estimate before it was raised to 0, for averages: clipped ones have a bias.
    lower_bound : float or None
        With probability `confidence_level` the true mutual information is at least this.
    confidence_level : float or None
        Level of `lower_bound`.
    p_value : float or None
        Permutation p-value of the hypothesis that there is no information.

    Examples
    --------
    >>> from skfairdp.metrics import mutual_information
    >>> mutual_information([0, 1] * 50, [0, 1] * 50, units="bits").method
    'plug_in'
    """

    value: float
    method: str
    units: str
    reason: str
    n_rows: int
    unclipped: float
    lower_bound: float | None = None
    confidence_level: float | None = None
    p_value: float | None = None

    def to(self, units: str) -> MutualInformation:
        """Return the same figures in other units.

        Parameters
        ----------
        units : {"nats", "bits"}
            Unit of the result.

        Returns
        -------
        MutualInformation
            A copy.

        Raises
        ------
        ValueError
            For other units.
        """
        factor = nats_per(self.units) / nats_per(units)
        return replace(
            self,
            value=self.value * factor,
            unclipped=self.unclipped * factor,
            lower_bound=None if self.lower_bound is None else self.lower_bound * factor,
            units=units,
        )


def numeric_rows(Z: ArrayLike, name: str = "Z") -> NDArray[np.float64]:
    """Finite float64 rows of shape (n_rows, n_columns); refuses other arrays."""
    try:
        rows = np.asarray(Z, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be numeric for this method; got values that are not numbers. Use "
            "method='plug_in' for labels."
        ) from None
    if rows.ndim == 0 or len(rows) == 0 or rows.size == 0:
        raise ValueError(f"{name} must have at least one row and one column; got {rows.shape}.")
    rows = rows.reshape(len(rows), -1)
    if not np.isfinite(rows).all():
        raise ValueError(f"{name} has NaN or infinite values; drop those rows or fill them.")
    return rows


def standardised(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns with mean 0 and deviation 1: an invertible map, so information stays."""
    spread = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def nats_per(units: str) -> float:
    """Nats in one unit; refuses an unknown unit."""
    if units not in ("nats", "bits"):
        raise ValueError(f"units is {units!r}. Allowed are 'nats' and 'bits'.")
    return 1.0 if units == "nats" else math.log(2.0)
