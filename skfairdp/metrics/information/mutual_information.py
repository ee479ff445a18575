"""Mutual information by the method that fits the data, with the reason for the choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.fairness.bounds.leakage import classifier_lower_bound, held_out_prediction
from skfairdp.fairness.information import MutualInformation, numeric_rows
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import COUNT, Choice, check_arguments, check_values
from skfairdp.metrics.information import estimates
from skfairdp.metrics.information.mine import mine
from skfairdp.records.groups import encode_groups

_METHODS = ("auto", "plug_in", "nearest_neighbours", "mine", "classifier")
_ROWS_PER_CELL = 5  # on average, for the correction of a table's bias to hold
_MOST_DIMENSIONS = 5  # of more columns distances to neighbours say little


@completed_by(estimates.nearest_neighbours)
def mutual_information(
    Z: ArrayLike | pd.Series | pd.DataFrame,
    s: ArrayLike | pd.Series | pd.DataFrame,
    *,
    method: str = "auto",
    units: str = "nats",
    confidence_level: float | None = None,
    n_permutations: int = 0,
    random_state: int | None = None,
) -> MutualInformation:
    """Estimate the information of a representation about a variable, by a method that fits.

    Parameters
    ----------
    Z : array-like of shape (n_rows,) or (n_rows, ...)
        Representation: numbers, or labels of any kind.
    s : array-like, Series or DataFrame of shape (n_rows,) or (n_rows, k)
        Groups, labels, or numbers.
    method : {"auto", "plug_in", "nearest_neighbours", "mine", "classifier"}, default="auto"
        "auto" takes the plug-in estimate from five rows per cell on, nearest neighbours for up to
        five numeric columns, else a classifier (MINE for numeric `s`); `reason` says which.
    confidence_level : float in (0, 1) or None, default=None
        Add a lower bound of this level by :func:`classifier_lower_bound`.
    n_permutations : int, default=0
        Add a permutation p-value from this many random orders of `s` (not for "mine").
    random_state : int or None, default=None
        Seed of splits, jitter and permutations.

    Returns
    -------
    MutualInformation
        Estimate, method, reason, and what was asked for.

    Raises
    ------
    ValueError
        For missing values, different lengths, or an argument that is not allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.metrics import mutual_information
    >>> rng = np.random.default_rng(0)
    >>> s = rng.integers(0, 2, 1000)
    >>> flipped = np.where(rng.random(1000) < 0.25, 1 - s, s)
    >>> result = mutual_information(flipped, s, units="bits")
    >>> result.method, round(result.value, 1)
    ('plug_in', 0.2)
    """
    check_arguments({"method": method}, method=Choice(_METHODS))
    numbers = _many_numbers(s)
    why = ""
    if method == "auto":
        method, why = _choose(Z, s, numbers)
    elif method == "classifier" and numbers:
        raise ValueError(
            "method='classifier' needs groups, but s is numeric with too many values: bin s, or "
            "leave the choice of the method to 'auto'."
        )

    lower = partial(classifier_lower_bound, Z, s, units=units, random_state=random_state)
    if method == "plug_in":
        result = estimates.plug_in(Z, s, units=units)
    elif method == "classifier":
        result = lower(confidence_level=confidence_level or 0.95)
    else:
        estimate = mine if method == "mine" else estimates.nearest_neighbours
        result = estimate(Z, s, continuous_s=numbers, units=units, random_state=random_state)
    result = replace(result, reason=f"{why} {result.reason}".strip())
    if confidence_level is not None and result.lower_bound is None:
        low = lower(confidence_level=confidence_level)
        result = replace(result, lower_bound=low.lower_bound, confidence_level=low.confidence_level)
    if n_permutations:
        p_value = permutation_p_value(
            Z, s, method=method, n_permutations=n_permutations, random_state=random_state
        )
        result = replace(result, p_value=p_value)
    return result


@completed_by(mutual_information)
def permutation_p_value(
    Z: ArrayLike | pd.Series | pd.DataFrame,
    s: ArrayLike | pd.Series | pd.DataFrame,
    *,
    method: str = "auto",
    n_permutations: int = 199,
    random_state: int | None = None,
) -> float:
    """Probability of so much apparent information if there were none.

    Parameters
    ----------
    method : {"auto", "plug_in", "nearest_neighbours", "classifier"}, default="auto"
        What is compared: the estimate, or for "classifier" the log-likelihood of a classifier
        trained on one half of the rows, over orders of `s` in the other half.
    n_permutations : int, default=199
        Random orders of `s`; the p-value is at least 1/(n_permutations + 1).

    Returns
    -------
    float
        (1 + orders with a value at least as large)/(n_permutations + 1), which is valid for
        every number of permutations if rows are exchangeable under independence.

    Raises
    ------
    ValueError
        For an unknown method, "mine" (too slow to repeat), or no permutations.

    References
    ----------
    Phipson and Smyth, "Permutation P-values Should Never Be Zero", Stat. Appl. Genet. Mol. Biol. 9
    (2010).

    Examples
    --------
    >>> from skfairdp.metrics import permutation_p_value
    >>> permutation_p_value([0, 1] * 50, [0, 1] * 50, n_permutations=99, random_state=0)
    0.01
    """
    allowed = Choice(tuple(name for name in _METHODS if name != "mine"))
    check_values(method=(method, allowed), n_permutations=(n_permutations, COUNT))
    numbers = _many_numbers(s)
    chosen = _choose(Z, s, numbers)[0] if method == "auto" else method
    statistic, n_rows = _statistic(Z, s, chosen, numbers, random_state)
    rng = np.random.default_rng(random_state)
    observed = statistic(np.arange(n_rows))
    # Equal tables give equal estimates up to rounding: count those as at least as large.
    tolerance = 1e-12 * max(1.0, abs(observed))
    orders = (rng.permutation(n_rows) for _ in range(n_permutations))
    larger = sum(statistic(order) >= observed - tolerance for order in orders)
    return (1 + larger) / (n_permutations + 1)


def _statistic(
    Z: ArrayLike, s: ArrayLike, method: str, numbers: bool, random_state: int | None
) -> tuple[Callable[[NDArray[np.int64]], float], int]:
    """A function from an order of `s` to the estimate."""
    if method == "nearest_neighbours":
        rows = numeric_rows(Z)
        k = min(3, len(rows) - 1)
        return estimates.estimator(rows, s, k, numbers, random_state), len(rows)
    n_rows = len(np.asarray(Z))
    if numbers:
        raise ValueError(
            "s is numeric with too many values for a table, and Z has too many columns for "
            "neighbours: no permutation test is offered. Bin s, or choose 'nearest_neighbours'."
        )
    right = encode_groups(s, n_rows=n_rows, name="s")
    if method == "plug_in":
        left = encode_groups(Z, n_rows=n_rows, name="Z").codes
        return lambda order: estimates.table_information(left, right.codes[order], False), n_rows
    guess, test = held_out_prediction(numeric_rows(Z), right, random_state=random_state)
    gains, truth = np.log(guess), right.codes[test]
    return lambda order: float(gains[np.arange(len(test)), truth[order]].mean()), len(test)


def _choose(Z: ArrayLike, s: ArrayLike, numbers: bool) -> tuple[str, str]:
    n_rows = len(np.asarray(Z))
    if not numbers:
        cells = _distinct(Z) * len(encode_groups(s, n_rows=n_rows, name="s").labels)
        if cells * _ROWS_PER_CELL <= n_rows:
            return "plug_in", "Both sides take few values."
    columns = numeric_rows(Z).shape[1]
    if columns <= _MOST_DIMENSIONS:
        return "nearest_neighbours", "Z is continuous with few dimensions."
    if numbers:
        return "mine", "Z has many dimensions and s many values."
    return "classifier", f"Z has {columns} dimensions, too many for neighbours or tables."


def _distinct(values: ArrayLike) -> int:
    """Number of different rows."""
    array = np.asarray(values)
    return len(pd.DataFrame(array.reshape(len(array), -1)).drop_duplicates())


def _many_numbers(s: ArrayLike) -> bool:
    """Whether `s` is to be taken as continuous: fractions, and many of them."""
    array = np.asarray(s)
    return array.dtype.kind == "f" and _distinct(array) > max(20, len(array) // 10)
