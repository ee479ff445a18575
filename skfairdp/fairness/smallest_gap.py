"""Smallest gap that a number of held-out rows can show, and the chance that they will show one.

Both follow from public numbers of rows, before any row is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from skfairdp.fairness.bounds.noisy_counts import (
    NoisyCells,
    noise_variance,
    private_gap_upper_bound,
)
from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound
from skfairdp.fairness.derivation import level_of_one
from skfairdp.foundation.figures import rounded_up
from skfairdp.foundation.parameters import COUNT, NONE, PROBABILITY, Choice, Number, check_values

USEFUL = 0.5  # bounds from here on are printed as "no useful bound"
_MOST_ROWS = 10**7  # more are not looked for


@dataclass(frozen=True)
class SmallestGap:
    """Smallest gap that a certificate or a monitor can show with given numbers of rows.

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
        shown = rounded_up(self.smallest)
        text = f"Equal rates of {self.rate:g} would show a gap of at most {shown}"
        if self.tolerance is None:
            return text + "."
        if self.possible:
            return f"{text}: they can show a tolerance of {self.tolerance:g}."
        needed = "more than ten million" if self.rows_needed is None else f"{self.rows_needed:,}"
        text += (
            f": at such rates they cannot show a tolerance of {self.tolerance:g}. It takes about "
            f"{needed} rows in each group; rates near 0 or 1 take fewer."
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
    count_epsilon: float | None = None,
    cell_sizes: str = "private",
) -> SmallestGap:
    """Compute the tolerance that numbers of held-out rows can show, or the rows that one needs.

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
    count_epsilon : float, optional
        What the counts are bought for, see `certify`; the noise that is drawn is taken to be 0,
        and a count to be one entry of the table.
    cell_sizes : {"private", "public"}, default="private"
        With `count_epsilon`, whether numbers of rows carry noise too.

    Returns
    -------
    SmallestGap

    Raises
    ------
    ValueError
        For fewer than two groups, or figures out of range.

    See Also
    --------
    skfairdp.GapMonitor.certifiable : The same for decisions that are watched.

    Examples
    --------
    >>> from skfairdp import certifiable
    >>> print(certifiable({"a": 1000, "b": 40}, 0.1))
    Equal rates of 0.5 would show a gap of at most 0.132: at such rates they cannot show a tole...
    >>> certifiable([1000, 1000], 0.05).possible
    True
    >>> certifiable([1000, 1000], 0.05, count_epsilon=0.1).rows_needed
    1165
    """
    check_values(
        tolerance=(tolerance, NONE, PROBABILITY),
        confidence_level=(confidence_level, PROBABILITY),
        rate=(rate, Number(0.0, 1.0)),
        n_claims=(n_claims, COUNT),
        count_epsilon=(count_epsilon, NONE, Number(1e-4, 1e3)),
        cell_sizes=(cell_sizes, Choice(("private", "public"))),
    )
    level = level_of_one(confidence_level, n_claims)

    def shown(sizes: Sequence[int]) -> float:
        rows = np.array([sizes])
        hits = np.rint(rate * rows).astype(np.int64)
        if count_epsilon is None or not rows.all():
            return float(gap_upper_bound(hits[0], rows[0], confidence_level=level))
        one, known = np.array([1]), rows if cell_sizes == "public" else None
        cells = NoisyCells(hits, rows - hits, one, one, known)
        return private_gap_upper_bound(cells, count_epsilon, confidence_level=level)

    return smallest_gap(group_sizes, tolerance, rate, shown)


def smallest_gap(
    group_sizes: Mapping[Any, int] | Sequence[int],
    tolerance: float | None,
    rate: float,
    shown: Callable[[Sequence[int]], float],
) -> SmallestGap:
    """Compute the smallest bound, where `shown` is the bound that equal rates give."""
    named = dict(group_sizes if isinstance(group_sizes, Mapping) else enumerate(group_sizes))
    if len(named) < 2 or any(not float(n).is_integer() or n < 0 for n in named.values()):
        raise ValueError(
            f"group_sizes={named!r} must hold whole numbers of rows, >= 0, of two groups or more."
        )
    smallest = shown([int(n) for n in named.values()])
    if tolerance is None or smallest <= tolerance:
        return SmallestGap(smallest, tolerance, None, (), rate)
    needed, too_small = _rows(shown, tolerance), []
    for group, n in named.items():
        largest = max(int(m) for other, m in named.items() if other != group)
        if n < (needed or math.inf) and shown([int(n), largest]) > tolerance:
            too_small.append(group)
    return SmallestGap(smallest, tolerance, needed, tuple(too_small), rate)


def _rows(shown: Callable[[Sequence[int]], float], tolerance: float) -> int | None:
    """Smallest number of rows a group, to 2 %, from which on a tolerance is shown."""
    low, least, high = 0, 1.0, math.ceil(1.0 / tolerance)
    while (found := shown([high, high])) > tolerance:
        # A bound falls as the root of the rows at least.
        low, least = high, found
        high = math.ceil(high * max(1.01, (found / tolerance) ** 2))
        if low >= _MOST_ROWS:
            return None
        high = min(high, _MOST_ROWS)
    side = -1.0
    while high - low > max(1, low // 50):
        # Where a power of the rows that goes through both ends crosses, and 1 % to either side.
        part = math.log(least / tolerance) / math.log(least / found) if low and least < 1 else 0.5
        middle = max(low, 1) * (high / max(low, 1)) ** part * (1.0 + 0.01 * side)
        middle = min(max(round(middle), low + 1), high - 1)
        bound, side = shown([middle, middle]), -side
        if bound > tolerance:
            low, least = middle, bound
        else:
            high, found = middle, bound
    return high


USUAL = 0.9  # chance with which a run is planned to show its tolerance


@dataclass(frozen=True)
class Showing:
    """Distance of a bound from the true gap, by numbers of rows and a rate.

    `margin`: of the bound above the observed gap. `deviation`: standard deviation of the observed
    gap of the two smallest groups around the true one. `others`: groups that each may differ most
    from one of them.
    """

    tolerance: float
    margin: float
    deviation: float
    others: int = 1

    def chance(self, gap: float, spread: float = 0.0) -> float:
        """Probability that the bound is at most the tolerance, by the normal approximation.

        `gap`: the expected one. `spread`: standard deviation of the true gap around it.
        """
        room = self.tolerance - self.margin - gap
        missed = float(ndtr(-room / math.hypot(self.deviation, spread)))
        return max(0.0, 1.0 - self.others * missed)

    def largest_gap(self, chance: float = USUAL, spread: float = 0.0) -> float:
        """Largest expected gap at which the tolerance is shown with a probability.

        Negative where no gap is small enough.
        """
        reach = self.quantile(chance) * math.hypot(self.deviation, spread)
        return self.tolerance - self.margin - reach

    @property
    def smallest(self) -> float:
        """Smallest tolerance that is shown with the usual probability at a true gap of zero."""
        return self.margin + self.quantile() * self.deviation

    def quantile(self, chance: float = USUAL) -> float:
        """Standard deviations to spare, so that all groups together keep within a chance."""
        return float(ndtri(1.0 - (1.0 - chance) / self.others))


def showing(
    group_sizes: Mapping[str, int],
    tolerance: float,
    *,
    rate: float = 0.5,
    confidence_level: float = 0.95,
    n_claims: int = 1,
    count_epsilon: float | None = None,
) -> Showing:
    """Plan a certificate; arguments as of `certifiable`."""
    asked: dict[str, Any] = {"confidence_level": confidence_level, "n_claims": n_claims}
    found = certifiable(group_sizes, rate=rate, count_epsilon=count_epsilon, **asked)
    smallest = sorted(max(size, 1) for size in group_sizes.values())[:2]
    noise = 0.0 if count_epsilon is None else noise_variance(count_epsilon)
    deviation = math.sqrt(sum(rate_variance(rate, size, noise) for size in smallest))
    return Showing(tolerance, found.smallest, deviation, len(group_sizes) - 1)


def rate_variance(rate: float, size: float, noise: float = 0.0) -> float:
    """Variance of an observed rate: of who was drawn, and of `noise` in each of its two counts."""
    of_noise = noise * (rate**2 + (1.0 - rate) ** 2) / size**2
    return rate * (1.0 - rate) / size + of_noise
