"""How often a private search runs: a random number, drawn before and never told."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting.dp_event import DpEvent, RepeatAndSelectDpEvent
from scipy.optimize import brentq


@dataclass(frozen=True)
class NumberOfRuns:
    """Truncated negative binomial distribution on 1, 2, 3, …

    References
    ----------
    Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential Privacy",
    ICLR 2022 (arXiv 2110.03620), definition 1 and theorem 2.

    Examples
    --------
    >>> from skfairdp.model_selection.number_of_runs import NumberOfRuns
    >>> round(NumberOfRuns(10.0, 1.0).gamma, 6), round(NumberOfRuns(10.0, 0.0).gamma, 6)
    (0.1, 0.026918)
    """

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
        low = -60.0  # of log(gamma), where any mean of use lies below

        def excess(log_gamma: float) -> float:
            return self._mean_at(log_gamma) - self.mean

        return math.exp(brentq(excess, low, -1e-12, xtol=1e-14, rtol=1e-14))

    def _mean_at(self, log_gamma: float) -> float:
        rest = -math.expm1(log_gamma)  # 1 - gamma
        if self.shape == 0.0:
            return rest / (math.exp(log_gamma) * -log_gamma)
        return self.shape * rest / (math.exp(log_gamma) * -math.expm1(self.shape * log_gamma))

    def probabilities(self, largest: int) -> np.ndarray:
        """Probability of each number of runs up to one.

        `largest`: the last number of runs asked for. Result (largest,): entry i is the
        probability of i + 1 runs.
        """
        gamma = self.gamma
        if gamma == 1.0:
            return np.eye(1, largest)[0]
        log_gamma = math.log(gamma)
        k = np.arange(1, largest)
        # Ratio of neighbouring probabilities: (1 - gamma) (k + shape) / (k + 1).
        steps = math.log1p(-gamma) + np.log((k + self.shape) / (k + 1.0))
        if self.shape == 0.0:
            first = math.log1p(-gamma) - math.log(-log_gamma)
        else:
            normaliser = -math.expm1(self.shape * log_gamma)
            first = (
                math.log(self.shape)
                + math.log1p(-gamma)
                + self.shape * log_gamma
                - math.log(normaliser)
            )
        return np.exp(first + np.concatenate([[0.0], np.cumsum(steps)]))

    def draw(self, generator: np.random.Generator) -> int:
        """Draw a number of runs.

        `generator`: secret: its draws tell how many runs there were.
        """
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
        """What the whole search releases, for the accountant.

        `one_run`: covers the pair (model, noisy score) of any candidate.
        """
        return RepeatAndSelectDpEvent(one_run, float(self.mean), float(self.shape))
