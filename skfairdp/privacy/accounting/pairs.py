"""Losses of single releases: one function a kind of event and of neighbours.

Each maps an event, the interval of the grid and the smallest tail to the losses of a record that
leaves and of one that joins (the same object where they are alike). Only
`skfairdp.privacy.accounting.table` says which function answers for which event and relation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.dp_event import DpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

from skfairdp.privacy.accounting.loss_distributions import Losses, from_curve, gaussian, two_points

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
