"""How often a private search runs: a random number, drawn before and never told."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting.dp_event import DpEvent, RepeatAndSelectDpEvent
from scipy.optimize import brentq


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

    def probabilities(self, largest: int) -> np.ndarray:
        """Probability of 1, 2, ..., `largest` runs."""
        gamma = self.gamma
        if gamma == 1.0:
            return np.eye(1, largest)[0]
        log_gamma = math.log(gamma)
        k = np.arange(1, largest)
        # Ratio of neighbouring probabilities: (1 - gamma) (k + shape) / (k + 1).
        steps = math.log1p(-gamma) + np.log((k + self.shape) / (k + 1.0))
        first = math.log1p(-gamma)
        if self.shape == 0.0:
            first -= math.log(-log_gamma)
        else:
            first += math.log(self.shape / -math.expm1(self.shape * log_gamma))
            first += self.shape * log_gamma
        return np.exp(first + np.concatenate([[0.0], np.cumsum(steps)]))

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
            return self._counted_up(float(generator.random()))
        while True:
            drawn = int(generator.negative_binomial(self.shape, gamma))
            if drawn > 0:
                return drawn

    def _counted_up(self, chance: float) -> int:
        """Invert the distribution function, where most draws would be thrown away."""
        probability, number = float(self.probabilities(1)[0]), 1
        rest = 1.0 - self.gamma
        while chance >= probability > 1e-300:
            chance -= probability
            probability *= rest * (number + self.shape) / (number + 1.0)
            number += 1
        return number

    def event(self, one_run: DpEvent) -> DpEvent:
        """What the whole search releases, where one run covers any (model, noisy score)."""
        return RepeatAndSelectDpEvent(one_run, float(self.mean), float(self.shape))
