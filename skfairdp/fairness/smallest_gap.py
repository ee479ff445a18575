"""What numbers of held-out rows can show, before a row is looked at."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound
from skfairdp.figures import rounded_up

__all__ = ["USEFUL", "SmallestGap", "certifiable"]

USEFUL = 0.5  # bounds from here on are printed as "no useful bound"
# More rows than this are not looked for.
_MOST_ROWS = 10**7


@dataclass(frozen=True)
class SmallestGap:
    """What a certificate can show with given numbers of rows.

    Parameters
    ----------
    smallest : float
        Bound on the gap if equal rates of `rate` are observed. Other outcomes may show less.
    tolerance : float or None
        The tolerance that was asked for.
    rows_needed : int or None
        Rows of each group with which equal rates show the tolerance; None without one, or
        where more than ten million are needed.
    too_small : tuple
        Groups with fewer rows than that, which cannot show it against any other group.
    rate : float
        The observed rate that was assumed.
    """

    smallest: float
    tolerance: float | None
    rows_needed: int | None
    too_small: tuple[Hashable, ...]
    rate: float

    @property
    def possible(self) -> bool:
        """Whether equal observed rates would show the tolerance (without one, a useful bound)."""
        return self.smallest <= (USEFUL if self.tolerance is None else self.tolerance)

    def __str__(self) -> str:
        text = (
            f"Equal rates of {self.rate:g} would show a gap of at most {rounded_up(self.smallest)}"
        )
        if self.tolerance is None:
            return text + "."
        if self.possible:
            return f"{text}: they can show a tolerance of {self.tolerance:g}."
        needed = "more than ten million" if self.rows_needed is None else f"{self.rows_needed:,}"
        text += (
            f": they cannot show a tolerance of {self.tolerance:g}. It takes about {needed} rows "
            "in each group."
        )
        if self.too_small:
            names = ", ".join(map(str, self.too_small))
            text += (
                f" Too small against every other group: {names}. Hold out more of these people, "
                "merge them with a group that they are treated like, or leave them out of the "
                "claim by declaring the other groups, and the certificate names them as outside."
            )
        return text


def certifiable(
    group_sizes: Mapping[Any, int] | Sequence[int],
    tolerance: float | None = None,
    *,
    confidence_level: float = 0.95,
    rate: float = 0.5,
    n_claims: int = 1,
) -> SmallestGap:
    """Tell which tolerance numbers of held-out rows can show, and how many rows one needs.

    Nothing but the sizes is used. Give sizes that are public, declared, or were bought with
    noise: an answer that depends on exact private sizes reveals them.

    Parameters
    ----------
    group_sizes : mapping of group to int, or sequence of int
        Held-out rows of each group, or of each cell that is compared.
    tolerance : float in (0, 1), optional
        Largest difference that is to be shown.
    confidence_level : float in (0, 1), default=0.95
        Of the certificate.
    rate : float in [0, 1], default=0.5
        Rate that is observed in all groups. One half asks for most rows.
    n_claims : int, default=1
        Notions times planned certificates, which share the error.

    Returns
    -------
    SmallestGap

    Raises
    ------
    ValueError
        For fewer than two groups, or figures out of range.

    Examples
    --------
    >>> from skfairdp import certifiable
    >>> print(certifiable({"a": 1000, "b": 40}, 0.1))
    Equal rates of 0.5 would show a gap of at most 0.132: they cannot show a tolerance of 0.1...
    >>> certifiable([1000, 1000], 0.05).possible
    True
    """
    named = dict(group_sizes if isinstance(group_sizes, Mapping) else enumerate(group_sizes))
    if len(named) < 2 or any(not float(n).is_integer() or n < 0 for n in named.values()):
        raise ValueError(
            f"group_sizes={named!r} must hold whole numbers of rows, >= 0, of two groups or more."
        )
    if tolerance is not None and not 0.0 < tolerance < 1.0:
        raise ValueError(f"tolerance={tolerance!r} must lie between 0 and 1.")
    if not 0.0 <= rate <= 1.0 or not 0.0 < confidence_level < 1.0 or n_claims < 1:
        raise ValueError(
            f"rate={rate!r} must lie in [0, 1], confidence_level={confidence_level!r} in (0, 1), "
            f"and n_claims={n_claims!r} must be at least 1."
        )
    level = 1.0 - (1.0 - confidence_level) / n_claims

    def shown(sizes: Sequence[int]) -> float:
        if not all(sizes):
            return 1.0
        counts = [round(rate * n) for n in sizes]
        return float(gap_upper_bound(counts, list(sizes), confidence_level=level))

    smallest = shown([int(n) for n in named.values()])
    if tolerance is None or smallest <= tolerance:
        return SmallestGap(smallest, tolerance, None, (), rate)
    needed = _rows(shown, tolerance)
    too_small = tuple(
        group
        for group, n in named.items()
        if n < (needed or math.inf)
        and shown([int(n), max(int(m) for other, m in named.items() if other != group)]) > tolerance
    )
    return SmallestGap(smallest, tolerance, needed, too_small, rate)


def _rows(shown: Any, tolerance: float) -> int | None:
    """Smallest number of rows a group, to 2 %, from which on a tolerance is shown."""
    high = 1
    while shown([high, high]) > tolerance:
        high *= 2
        if high > _MOST_ROWS:
            return None
    low = high // 2
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if shown([middle, middle]) > tolerance else (low, middle)
    return high
