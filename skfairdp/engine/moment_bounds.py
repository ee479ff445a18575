"""Sensitivities of sums of moments to one record."""

from __future__ import annotations

import math

LARGEST_TARGET = 0.5
"""Bound of |t_i| in the linear sum."""

QUADRATIC = 0.125
"""Factor of z z^T in the quadratic sum."""


def l2_bounds() -> tuple[float, float]:
    """L2 norms that one record's linear and quadratic part cannot exceed.

    Result: 1/2 and 1/8: for a row z in the unit ball, ``||t z|| <= 1/2`` and ``||z z^T||_F =
    ||z||^2``.
    """
    return LARGEST_TARGET, QUADRATIC


def l1_bounds(d: int) -> tuple[float, float]:
    """L1 norms that one record's linear part, and its upper triangle, cannot exceed.

    `d`: coordinates of a row in the unit L2 ball. Result: ``sqrt(d) / 2`` and ``(d + 1) / 16``,
    because ``||z||_1 <= sqrt(d)`` and the sum over j <= l of ``|z_j z_l|`` is ``(||z||_1^2 +
    ||z||_2^2) / 2``.
    """
    return LARGEST_TARGET * math.sqrt(d), QUADRATIC * (d + 1) / 2.0
