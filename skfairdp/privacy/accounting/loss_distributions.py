"""Privacy loss distributions of single releases, on a grid.

A record leaves (the loss is the logarithm of the density with it over the density without
it, drawn with it) or joins (the other way round). Losses are spread onto the two grid points
around them so that the probabilities under both data sets stay what they are (Doroshenko et
al., "Connect the Dots: Tighter Discrete Approximations of Privacy Loss Distributions",
2022). Every mass is then raised by a bound on its rounding error: delta grows with every
mass, so does that of a composition, and nothing is understated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.dp_event import DpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri

Array = NDArray[np.float64]

# Largest relative error of one float64 operation.
ROUNDING = 2.0**-53
# A logarithm or exponential is wrong by at most this number of roundings, relative to itself or,
# if that is more, to its logarithm.
ELEMENTARY = 16.0


@dataclass(frozen=True, eq=False)
class Losses:
    """A privacy loss on a grid, rounded up."""

    lower: int  # Grid position of the first mass
    masses: Array  # (n,): probability of each position, or a little more
    infinity: float  # Probability of an infinite loss, or a little more
    blur: float = 0.0  # Nats by which a loss may lie above its position, by rounding


def gaussian(rate: float, sigma: float, interval: float, tail: float) -> tuple[Losses, Losses]:
    """Losses of one Gaussian query over a Poisson sample: the record leaves, and it joins.

    `tail`: probability beyond which each tail is treated as an infinite, or the lowest, loss.
    Result: of N(0, sigma**2) mixed with N(1, sigma**2) at the given rate against the first alone,
    and the reverse. The second has the masses of the first under the other data set: each times
    ``exp(-loss)``, at minus the loss.
    """
    # In units of sigma; the record moves the mean by `shift`.
    shift = 1.0 / sigma
    reach = -float(ndtri(tail))
    ends = np.array([-reach, reach + shift])
    with np.errstate(divide="ignore"):
        bottom, top = np.logaddexp(np.log1p(-rate), math.log(rate) + shift * ends - shift**2 / 2)
    first, last = math.floor(bottom / interval), math.ceil(top / interval)
    losses = interval * np.arange(first, last + 1)
    sign, log_ratio = _ratio_at(losses, rate)
    # Where each loss is attained; the ends of the grid stand for all beyond.
    z = np.where(sign > 0.0, log_ratio / shift + shift / 2, -reach).clip(*ends)
    z[0], z[-1] = ends
    # From the side of the smaller tail, so that differences keep their digits.
    side = np.where(z[1:] + z[:-1] < shift, 1.0, -1.0)
    alone, alone_tail = _log_between(side * z[:-1], side * z[1:])
    with_record, record_tail = _log_between(side * (z[:-1] - shift), side * (z[1:] - shift))
    drawn = np.exp(with_record)
    # Mass of the record's side that the other's, at either loss of a cell, does not balance.
    up = (drawn - sign[:-1] * np.exp(log_ratio[:-1] + alone)) / -math.expm1(-interval)
    down = (sign[1:] * np.exp(log_ratio[1:] + alone) - drawn) / math.expm1(interval)
    larger = np.maximum(log_ratio[:-1], log_ratio[1:])
    digits = 1.0 - alone_tail - record_tail + np.abs(larger)
    tails = np.exp(record_tail) + np.exp(larger + alone_tail) + np.exp(alone)
    wrong = (ELEMENTARY * ROUNDING / interval) * digits * tails
    masses = np.zeros(len(losses))
    masses[1:] += rate * (np.maximum(up, 0.0) + wrong)
    masses[:-1] += rate * (np.maximum(down, 0.0) + wrong)
    blur = ELEMENTARY * ROUNDING * (1.0 + max(abs(float(bottom)), abs(float(top))))
    beyond = tail * (1.0 + 1e-6)
    lowest = np.zeros(len(losses))
    lowest[0] = beyond
    leaving = Losses(first, masses + lowest, beyond, blur)
    if rate == 1.0:
        return leaving, leaving
    swapped = masses[::-1] * np.exp(-losses[::-1]) * (1.0 + blur)
    return leaving, Losses(-last, swapped + lowest, beyond, blur)


def two_points(size: float, interval: float) -> Losses:
    """Losses of a count with discrete Laplace noise: `size` or minus `size`, nothing between.

    They are the same whether the record leaves or joins.
    """
    position = math.floor(size / interval)
    rest = min(max(size - position * interval, 0.0), interval)
    masses = np.zeros(2 * position + 3)
    for loss, above in ((size, rest), (-size, interval - rest)):
        probability = math.exp(min(loss, 0.0)) / (1.0 + math.exp(-size))
        share = math.expm1(-above) / math.expm1(-interval)
        below = 2 * position + 1 if loss > 0.0 else 0
        masses[below : below + 2] += probability * np.array([1.0 - share, share])
        masses[below : below + 2] += probability * ELEMENTARY * ROUNDING * (2.0 + position)
    return Losses(-position - 1, masses, 0.0, ELEMENTARY * ROUNDING * (1.0 + size))


def from_curve(
    curve: Callable[[Array], Array], top: float, interval: float, roundings: float
) -> Losses:
    """Losses of a release that costs the same in both directions, from its delta(epsilon).

    `curve`: maps an ascending array of epsilon >= 0, shape (n,), to delta, shape (n,). `top`:
    epsilon from which on delta is charged as an infinite loss. `roundings`: how many roundings a
    value of the curve may be wrong by, relative to the probability of a larger loss and for every
    unit of its logarithm. Result: its delta is a chord through the curve at every grid point.
    """
    last = max(math.ceil(top / interval), 1)
    delta = np.minimum.accumulate(
        curve(np.asarray(interval * np.arange(last + 1), dtype=np.float64))
    )
    steps = np.diff(delta, append=delta[-1])
    masses = np.zeros(last + 1)
    masses[1:] = (steps[1:] - steps[:-1] * math.exp(interval)) / math.expm1(interval)
    masses = masses.clip(min=0.0)
    infinity = float(delta[-1])
    above = np.maximum(infinity + masses[::-1].cumsum()[::-1], np.finfo(np.float64).tiny)
    above = (roundings * ROUNDING / interval) * above * (1.0 + np.abs(np.log(above)))
    masses[1:] += above[1:] + above[:-1]
    mirrored = (masses[1:] * np.exp(-interval * np.arange(1, last + 1)))[::-1]
    masses[0] = max(1.0 - infinity - float(masses[1:].sum() + mirrored.sum()), 0.0)
    # What was added elsewhere is not to be missing here.
    masses[0] += 4.0 * float(above.sum())
    whole = np.concatenate([mirrored, masses])
    return Losses(-last, whole, infinity, ELEMENTARY * ROUNDING * (1.0 + top))


def _ratio_at(losses: Array, rate: float) -> tuple[Array, Array]:
    """Sign and logarithm of the density ratio with and without the record, at a loss."""
    if rate == 1.0:  # the loss itself, also where its exponential leaves the range of a float
        return np.ones(len(losses)), losses
    near = np.minimum(losses, 1.0)
    excess = np.where(near > -0.5, np.expm1(near) + rate, np.exp(near) - (1.0 - rate))
    with np.errstate(divide="ignore"):
        below = np.log(np.abs(excess))
        above = losses + np.log1p((rate - 1.0) * np.exp(-np.maximum(losses, 1.0)))
    return np.sign(excess), np.where(losses < 1.0, below, above) - math.log(rate)


def _log_between(a: Array, b: Array) -> tuple[Array, Array]:
    """Logarithm of the normal mass between two points, and of that below the upper one."""
    upper, lower = log_ndtr(np.maximum(a, b)), log_ndtr(np.minimum(a, b))
    with np.errstate(divide="ignore"):
        return upper + np.log(-np.expm1(lower - upper)), upper


# Losses of a record that leaves and of one that joins; the same object where they are alike. Below
# stands one function for each kind of event and of neighbours, which takes the event, the interval
# of the grid and the smallest tail. Only the table says which of them answers for which event.
Pair = tuple[Losses, Losses]
PairMaker = Callable[[Any, float, float], Pair]


def gaussian_sum(event: Any, interval: float, tail: float) -> Pair:
    """A record is in the sum, or is not."""
    return gaussian(1.0, event.noise_multiplier, interval, tail)


def replaced_gaussian_sum(event: Any, interval: float, tail: float) -> Pair:
    """A vector and its opposite: the sum moves by twice the norm."""
    return gaussian(1.0, event.noise_multiplier / 2.0, interval, tail)


def sampled_gaussian_sum(event: Any, interval: float, tail: float) -> Pair:
    """A record is in the sum with the probability of its sample, or is not."""
    return gaussian(event.sampling_probability, event.event.noise_multiplier, interval, tail)


def replaced_sampled_gaussian_sum(event: Any, interval: float, tail: float) -> Pair:
    """One record takes the other's place: N(1, sigma**2) and N(-1, sigma**2), each sampled."""
    loss = GaussianPrivacyLoss(
        event.event.noise_multiplier,
        sampling_prob=event.sampling_probability,
        adjacency_type=AdjacencyType.REPLACE,
        log_mass_truncation_bound=math.log(tail),
    )
    top = loss.connect_dots_bounds().epsilon_upper
    assert top is not None
    return _both(from_curve(loss.get_delta_for_epsilon, top, interval, 16.0))


def counts(event: Any, interval: float, tail: float) -> Pair:
    """A count moves by one; a larger step is left to dp_accounting."""
    if event.sensitivity != 1:
        return _one_record(event, interval, tail)
    return _both(two_points(event.noise_parameter, interval))


def replaced_counts(event: Any, interval: float, tail: float) -> Pair:
    """A record leaves its count and another joins one: pure at twice the figure.

    Randomised response at that figure costs at least as much as any pure release (Kairouz, Oh and
    Viswanath, 2015), whichever counts change, and whatever pure release the event stands for.
    """
    pure = 2.0 * event.noise_parameter * event.sensitivity
    return _both(two_points(pure, interval))


def laplace_sum(event: Any, interval: float, tail: float) -> Pair:
    """A sum moves by the norm of a record."""
    return _laplace(1.0 / event.noise_multiplier, interval)


def replaced_laplace_sum(event: Any, interval: float, tail: float) -> Pair:
    """A vector and its opposite: the sum moves by twice the norm."""
    return _laplace(2.0 / event.noise_multiplier, interval)


def of_the_library(relation: NeighboringRelation) -> PairMaker:
    """Make pairs of the larger delta that dp_accounting knows of the two directions."""

    def pair(event: DpEvent, interval: float, tail: float) -> Pair:
        curve = PLDAccountant(relation, interval).compose(event).get_delta
        top, floor = interval, curve(math.inf)
        while curve(top) > floor and top < 1e6 * interval:
            top *= 2.0
        spent = lambda epsilon: np.asarray(curve(epsilon), dtype=np.float64)  # noqa: E731
        return _both(from_curve(spent, top, interval, top / interval))

    return pair


_one_record = of_the_library(NeighboringRelation.ADD_OR_REMOVE_ONE)


def _laplace(size: float, interval: float) -> Pair:
    spent = lambda epsilon: -np.expm1(np.minimum(epsilon - size, 0.0) / 2.0)  # noqa: E731
    return _both(from_curve(spent, size, interval, 16.0))


def _both(losses: Losses) -> Pair:
    return losses, losses
