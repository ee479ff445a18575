"""The cost of a change of one person's sensitive attribute.

The person leaves one cell and joins another, and the two cells have noise of their own.
What is seen of the first cell differs as by removing a record, what is seen of the second
as by adding one, and the two are independent: the pair of outcomes is the product of the
"remove" and the "add" direction of the same release. Exchanging the two data sets only
exchanges the two cells, so one product answers for both directions.

It is *not* the cost of replacing a record, where the difference of two records meets one
noise; nor twice the event under adding or removing a record, which composes each direction
with itself. It is wrong for a release that forms a signed sum over cells before the noise:
that one replaces a record.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as losses
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

from skfairdp.privacy.events import parts_of
from skfairdp.privacy.grid import grid_interval

__all__ = ["both_directions", "loss_epsilon", "loss_of_change"]


def loss_of_change(event: DpEvent) -> losses.PrivacyLossDistribution | None:
    """Privacy loss of releasing an event when one person's attribute changes.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        In canonical form: what one cell releases about one of its records.

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution or None
        Pessimistic; None for an event without a known loss distribution.
    """
    interval = grid_interval(both_directions(event))
    parts = [_loss(part, count, interval) for part, count in parts_of(event)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return reduce(lambda a, b: a.compose(b), known, losses.identity(interval))


def loss_epsilon(event: DpEvent, delta: float) -> float | None:
    """Epsilon by privacy loss distributions, None where they have no answer.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        In canonical form.
    delta : float
        Probability in [0, 1).

    Returns
    -------
    float or None
    """
    distribution = loss_of_change(event)
    if distribution is None:
        return None
    # An epsilon near 710, where its exponential overflows, comes out as infinity.
    with np.errstate(over="ignore"):
        return float(distribution.get_epsilon_for_delta(delta))


def both_directions(event: DpEvent) -> DpEvent:
    """Release everything twice: no cheaper, by Renyi divergences, than the product.

    A Renyi divergence of a product is the sum of the two directions', and each is at most
    the larger of the two, which is what an accountant charges.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        In canonical form.

    Returns
    -------
    dp_accounting.DpEvent
        To be accounted under adding or removing a record.
    """
    match event:
        case dp_event.ComposedDpEvent(events=parts):
            return dp_event.ComposedDpEvent(tuple(map(both_directions, parts)))
        case dp_event.SelfComposedDpEvent(event=inner, count=count):
            return dp_event.SelfComposedDpEvent(both_directions(inner), count)
        case dp_event.RepeatAndSelectDpEvent(event=inner, mean=mean, shape=shape):
            return dp_event.RepeatAndSelectDpEvent(both_directions(inner), mean, shape)
        case _:
            return dp_event.SelfComposedDpEvent(event, 2)


def _loss(event: DpEvent, count: int, interval: float) -> losses.PrivacyLossDistribution | None:
    match event:
        case dp_event.NoOpDpEvent():
            return losses.identity(interval)
        case dp_event.GaussianDpEvent(noise_multiplier=sigma):
            # The product of two Gaussian queries is one, and both directions are alike.
            return losses.from_gaussian_mechanism(
                sigma / math.sqrt(2.0 * count), value_discretization_interval=interval
            )
        case dp_event.PoissonSampledDpEvent(
            sampling_probability=rate, event=dp_event.GaussianDpEvent(noise_multiplier=sigma)
        ):
            leave = _direction(rate, sigma, AdjacencyType.REMOVE, interval)
            join = _direction(rate, sigma, AdjacencyType.ADD, interval)
            step = pld_pmf.compose_pmfs(leave, join)
            return losses.PrivacyLossDistribution(step.self_compose(count))
        case dp_event.DiscreteLaplaceDpEvent(noise_parameter=scale, sensitivity=sensitivity):
            return losses.from_discrete_laplace_mechanism(
                scale, sensitivity, value_discretization_interval=interval
            ).self_compose(2 * count)
        case dp_event.LaplaceDpEvent(noise_multiplier=scale):
            return losses.from_laplace_mechanism(
                scale, value_discretization_interval=interval
            ).self_compose(2 * count)
        case _:
            return None


def _direction(
    rate: float, sigma: float, adjacency: AdjacencyType, interval: float
) -> pld_pmf.PLDPmf:
    """Loss of one step in one direction, rounded up to the grid by connecting the dots."""
    loss = GaussianPrivacyLoss(sigma, sampling_prob=rate, adjacency_type=adjacency)
    bounds = loss.connect_dots_bounds()
    assert bounds.epsilon_lower is not None
    assert bounds.epsilon_upper is not None
    lower = math.floor(bounds.epsilon_lower / interval)
    upper = math.ceil(bounds.epsilon_upper / interval)
    deltas = loss.get_delta_for_epsilon(np.arange(lower, upper + 1) * interval)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, lower, upper, deltas)
