"""Consequences of epsilon-private representations for predictors and for information."""

from __future__ import annotations

import math

from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.figures import significant_down
from skfairdp.foundation.parameters import COUNT, NONE, Choice, Number, check_values

_EPSILON = Number(0.0, finite=False)
_AMOUNT = Number(0.0)
_UNITS = Choice(("nats", "bits"))
_COMMON = """
Parameters
----------
epsilon : float
    Cost of one release in nats, >= 0 (pure, local).
units : {"nats", "bits"}
    Unit of the result.

Raises
------
ValueError
    If an argument is outside what is allowed.
"""


@completed_by(_COMMON)
def downstream_bound(epsilon: float, n_releases: int = 1) -> float:
    """Largest difference of rates between groups for every predictor that sees releases.

    Parameters
    ----------
    n_releases : int, default=1
        How many releases about one person the predictor sees.

    Returns
    -------
    float in [0, 1]
        ``tanh(n_releases * epsilon / 2)``. It bounds demographic parity, equal opportunity
        and equalized odds between any two groups, for every predictor, randomised or not,
        that sees a person through the releases alone and was not fitted on that person.
        It does not bound differences in accuracy, precision, calibration or ranking.

    Notes
    -----
    Attained by one bit of randomised response that hides the group.

    Examples
    --------
    >>> from skfairdp.representation import downstream_bound
    >>> round(downstream_bound(0.5), 4), round(downstream_bound(5.0), 4)
    (0.2449, 0.9866)
    """
    check_values(epsilon=(epsilon, _EPSILON), n_releases=(n_releases, COUNT))
    return min(_up(math.tanh(epsilon * n_releases / 2.0)), 1.0)


@completed_by(_COMMON)
def information_bound(
    epsilon: float, n_outputs: int | None = None, *, units: str = "nats"
) -> float:
    """Largest information of a release about its row: a bound on I(X; Z).

    Parameters
    ----------
    n_outputs : int or None, default=None
        Number of possible releases, where it is finite.

    Returns
    -------
    float
        ``min(epsilon * tanh(epsilon / 2), log(n_outputs))``. It holds for every law of the
        rows, and by data processing for I(U; Z) of any label U too.

    Notes
    -----
    Lemma 2 of the paper states the weaker ``epsilon``.

    Examples
    --------
    >>> from skfairdp.representation import information_bound
    >>> round(information_bound(1.0), 4), round(information_bound(8.0, 4, units="bits"), 4)
    (0.4621, 2.0)
    """
    check_values(epsilon=(epsilon, _EPSILON), n_outputs=(n_outputs, COUNT, NONE))
    bound = epsilon * math.tanh(epsilon / 2.0)
    if n_outputs is not None:
        bound = min(bound, math.log(n_outputs))
    return _in_units(bound, units)


@completed_by(_COMMON)
def group_information_bound(epsilon: float, *, units: str = "nats") -> float:
    """Largest information of a release about which of two groups a person is in.

    Returns
    -------
    float
        ``log 2 - h(1 / (1 + exp(epsilon)))`` with h the binary entropy: the capacity of one
        bit of randomised response. It holds for two groups of any sizes.

    Examples
    --------
    >>> from skfairdp.representation import group_information_bound
    >>> [round(group_information_bound(epsilon), 4) for epsilon in (0.5, 1.0, 2.0, 5.0)]
    [0.0303, 0.1109, 0.3278, 0.653]
    """
    check_values(epsilon=(epsilon, _EPSILON))
    gap = math.tanh(epsilon / 2.0)
    # With p = (1 + gap) / 2: p log 2p + (1 - p) log 2(1 - p), without cancellation near 0.
    bound = (1.0 + gap) / 2.0 * math.log1p(gap)
    if gap < 1.0:
        bound += (1.0 - gap) / 2.0 * math.log1p(-gap)
    return _in_units(bound, units)


@completed_by(_COMMON)
def leakage_bound(epsilon: float, conditional_information: float, *, units: str = "nats") -> float:
    """Bound on I(S; Z) from the information of a release about a row of known group.

    Parameters
    ----------
    conditional_information : float
        A lower bound, in nats, on ν = I(X; Z | S) for these rows and this encoder.

    Returns
    -------
    float
        ``max(epsilon * tanh(epsilon / 2) - conditional_information, 0)``; the paper's
        Theorem 1 states the weaker ``epsilon - conditional_information``.

    Raises
    ------
    ValueError
        If an argument is outside what is allowed, or the conditional information is more
        than a release at `epsilon` can hold.

    Notes
    -----
    Needs S → X → Z: the encoder and its noise see the group only through the row.

    Examples
    --------
    >>> from skfairdp.representation import leakage_bound
    >>> round(leakage_bound(1.0, 0.4), 4)
    0.0621
    """
    check_values(conditional_information=(conditional_information, _AMOUNT))
    left = information_bound(epsilon) - conditional_information
    if left < 0.0:
        raise ValueError(
            f"conditional_information={conditional_information!r} is more than a release at "
            f"epsilon={epsilon!r} can hold: give at most "
            f"{significant_down(information_bound(epsilon))}"
        )
    return _in_units(left, units)


def _in_units(nats: float, units: str) -> float:
    check_values(units=(units, _UNITS))
    return _up(nats if units == "nats" else nats / math.log(2.0))


def _up(value: float) -> float:
    """Raise a computed bound by more than its rounding error."""
    return value + 8 * math.ulp(value) if value > 0.0 else value
