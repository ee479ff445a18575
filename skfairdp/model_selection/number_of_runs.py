"""Secret number of runs of a private search, and the cost of the best run at each order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln

from skfairdp.privacy.accounting.events import canonical, parts_of
from skfairdp.privacy.accounting.table import renyi_form

# All orders that the accountant may use when it states an epsilon.
ORDERS = np.array(DEFAULT_RDP_ORDERS, dtype=np.float64)
# Those with a finite sum, which are quick; enough to steer a search for the noise.
WHOLE_ORDERS = ORDERS[(np.round(ORDERS) == ORDERS) & (ORDERS >= 2)]


@dataclass(frozen=True)
class NumberOfRuns:
    """Truncated negative binomial law on 1, 2, … (Papernot and Steinke 2022, definition 1)."""

    mean: float
    # 1 is the geometric distribution, 0 the logarithmic one: cheaper for the same mean, with more
    # searches of a single run and a longer tail. Values between and above interpolate
    shape: float

    @property
    def gamma(self) -> float:
        """Parameter in (0, 1] that gives the mean; 1 is a single run for certain."""
        if self.mean <= 1.0:
            return 1.0
        if self.shape == 1.0:
            return 1.0 / self.mean

        def excess(log_gamma: float) -> float:
            ratio = -log_gamma  # of 1 - gamma**shape to the shape, at a shape of 0
            if self.shape > 0.0:
                ratio = -math.expm1(self.shape * log_gamma) / self.shape
            return -math.expm1(log_gamma) / (math.exp(log_gamma) * ratio) - self.mean

        # At a log(gamma) of -60 lies any mean of use below.
        return math.exp(brentq(excess, -60.0, -1e-12, xtol=1e-14, rtol=1e-14))

    def draw(self, generator: np.random.Generator) -> int:
        """Draw a number of runs, which the generator tells: it is secret."""
        gamma = self.gamma
        if gamma == 1.0:
            return 1
        if self.shape == 0.0:
            return int(generator.logseries(1.0 - gamma))
        if self.shape == 1.0:
            return int(generator.geometric(gamma))
        likely = -math.expm1(self.shape * math.log(gamma))  # that one draw is above zero
        if likely < 1e-3:
            first = self.shape * (1.0 - likely) * (1.0 - gamma) / likely
            return self._counted_up(first, float(generator.random()))
        while True:
            drawn = int(generator.negative_binomial(self.shape, gamma))
            if drawn > 0:
                return drawn

    def _counted_up(self, probability: float, chance: float) -> int:
        """Invert the distribution function, where most draws would be thrown away."""
        number, rest = 1, 1.0 - self.gamma
        while chance >= probability > 1e-300:
            chance -= probability
            probability *= rest * (number + self.shape) / (number + 1.0)
            number += 1
        return number

    def event(self, one_run: DpEvent) -> DpEvent:
        """Event of the whole search, where one run covers any pair of model and noisy score."""
        return dp_event.RepeatAndSelectDpEvent(one_run, float(self.mean), float(self.shape))


def curve(event: DpEvent, orders: NDArray[np.float64] = ORDERS) -> NDArray[np.float64]:
    """Renyi divergence of an event at each order, for one record more, less or blanked."""
    total, event = np.zeros(len(orders)), canonical(event)
    for part, count in parts_of(renyi_form(event) or event):
        total += count * _of_one(part, orders)
    return total


def _of_one(part: DpEvent, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    match part:
        case dp_event.NoOpDpEvent():
            return np.zeros(len(orders))
        case dp_event.ZCDpEvent(xi=xi, rho=rho):
            return xi + rho * orders
        case dp_event.GaussianDpEvent(noise_multiplier=sigma):
            return orders / (2.0 * sigma**2)
        case dp_event.PoissonSampledDpEvent(
            sampling_probability=rate, event=dp_event.GaussianDpEvent(noise_multiplier=sigma)
        ):
            return _sampled_gaussian(rate, sigma, tuple(orders.tolist()))
    raise ValueError(
        f"a {type(part).__name__} cannot be searched over: the cost of a search is known for "
        "Gaussian sums, sampled or not, and for counts with discrete Laplace noise"
    )


@lru_cache(maxsize=1024)  # a search asks again what the one before it asked
def _sampled_gaussian(rate: float, sigma: float, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """Curve of one Gaussian sum over a Poisson sample (Mironov, Talwar and Zhang, 2019)."""
    excess = [
        _binomial_excess(rate, sigma, int(order))
        if order.is_integer()
        else _integral_excess(rate, sigma, order)
        for order in orders
    ]
    return np.logaddexp(0.0, excess) / (np.array(orders) - 1.0)


def _binomial_excess(rate: float, sigma: float, order: int) -> float:
    """log(E[r**order] - 1) for the density ratio r, as a sum."""
    k = np.arange(2, order + 1)
    exponent = k * (k - 1) / (2.0 * sigma**2)
    ways = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    # log(exp(z) - 1), so that a small divergence keeps its digits
    gain = exponent + np.log(-np.expm1(-exponent))
    terms = ways + k * math.log(rate) + (order - k) * math.log1p(-rate) + gain
    return float(np.logaddexp.reduce(terms))


def _integral_excess(rate: float, sigma: float, order: float) -> float:
    """The same for any order, by quadrature.

    For integrands as smooth as these, which vanish at both ends, sums over an even grid
    converge faster than any power of its width.
    """
    reach = 14.0 * sigma + order + 1.0
    x, width = np.linspace(-reach, reach, 4_001, retstep=True)
    log_ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + (2.0 * x - 1.0) / (2.0 * sigma**2))
    log_density = -0.5 * (x / sigma) ** 2 - math.log(sigma * math.sqrt(2.0 * math.pi))
    # E[r] = 1 is taken off under the integral, for the digits of small divergences; where
    # the power is large, it has none to lose.
    small = order * log_ratio < 30.0
    part = np.exp(log_density + order * log_ratio, where=~small, out=np.zeros_like(x))
    near = log_ratio[small]
    gain = np.expm1(order * near) - order * np.expm1(near)
    part[small] = np.exp(log_density[small]) * gain
    return math.log(max(float(part.sum()) * width, 1e-300))


def selected_curve(
    one_run: NDArray[np.float64], runs: NumberOfRuns, orders: NDArray[np.float64] = ORDERS
) -> NDArray[np.float64]:
    """Renyi curve of the best of a random number of runs.

    Theorem 2 of Papernot and Steinke, and then monotonicity in the order: what dp_accounting
    charges for its ``RepeatAndSelectDpEvent``.
    """
    steady = (1.0 - 1.0 / orders) * one_run - math.log(runs.gamma) / orders
    found = one_run + math.log(runs.mean) / (orders - 1.0) + (1.0 + runs.shape) * steady.min()
    return np.minimum.accumulate(found[::-1])[::-1]


def pure_curve(epsilon: float, orders: NDArray[np.float64] = ORDERS) -> NDArray[np.float64]:
    """Largest Renyi divergence of any pure mechanism: that of randomised response."""
    yes = -math.log1p(math.exp(-epsilon))
    no = yes - epsilon
    sides = np.logaddexp(orders * yes + (1 - orders) * no, orders * no + (1 - orders) * yes)
    return np.maximum(sides, 0.0) / (orders - 1)
