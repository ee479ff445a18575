"""DP2DP, rebuilt: parity of several classes by a private score and a private calibration.

Say, Denis and Pinot, "Fairness Meets Privacy: Integrating Differential Privacy and Demographic
Parity in Multi-class Classification" (arXiv 2511.18876). The abstract describes two phases: a
private probabilistic classifier from labelled rows, and multipliers of the parity constraints from
unlabelled rows, by a private optimisation of a smoothed objective. What it leaves open is taken
from the method that it makes private (Denis, Elie, Hebiri and Hu, "Fairness guarantees in
multi-class classification with demographic parity", JMLR 2024): with two groups s of 1 and -1,
shares pi_s, and the group known at prediction, the rule is the largest of ``pi_s p_k(x, s) - s
lambda_k``, where lambda minimises the mean over groups of the largest of them plus rho times the
L1 norm of lambda. The largest is smoothed by a soft maximum. Rows are in one of the two parts, so
each phase has all of epsilon.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import norm

from skfairdp import DPSGDClassifier, default_net

LABELLED = 0.7
STEPS = 100
TEMPERATURE = 0.01


def gaussian_multiplier(epsilon: float, delta: float, times: int) -> float:
    """Noise multiplier of each of several Gaussian releases, which are together as one."""

    def excess(mu: float) -> float:
        tail = np.exp(epsilon) * norm.cdf(-mu / 2.0 - epsilon / mu)
        return float(norm.cdf(mu / 2.0 - epsilon / mu) - tail - delta)

    return float(np.sqrt(times) / brentq(excess, 1e-4, 50.0))


class DP2DP:
    """Two phases; `calibrate` repeats the second one, which costs as much again.

    `epsilon`, `delta`: of each phase, for different rows. `seed`: of the parts and the noise.
    """

    def __init__(self, *, epsilon: float, delta: float, seed: int) -> None:
        self.epsilon, self.delta, self.seed = epsilon, delta, seed

    def fit(self, X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> DP2DP:
        """Learn private scores from the labelled part, with the group as a column."""
        rng = np.random.default_rng(self.seed)
        labelled = rng.random(len(y)) < LABELLED
        self.names_ = np.unique(groups)
        net = default_net().set_params(module__hidden_sizes=(), lr=0.05)
        model = DPSGDClassifier(
            net,
            epsilon=self.epsilon,
            delta=self.delta,
            batch_size=2048,
            max_epochs=40,
            max_grad_norm=1.0,
            random_state=self.seed,
            progress=False,
        )
        self.model_ = model.fit(self._with(X[labelled], groups[labelled]), y[labelled])
        self.classes_ = model.classes_
        rest = ~labelled
        self._signs = self._sign(groups[rest])
        self._chances = model.predict_proba(self._with(X[rest], groups[rest]))
        return self

    def calibrate(self, rho: float) -> DP2DP:
        """Find multipliers for a tolerance, by noisy gradients over the unlabelled part."""
        rng = np.random.default_rng([self.seed, round(1e4 * rho)])
        # A record adds a vector of norm 1 at most to one group's sum in each step, and 1 to a size.
        sigma = gaussian_multiplier(self.epsilon, self.delta, STEPS + 1)
        own = [self._signs == sign for sign in (-1, 1)]
        sizes = np.array([mask.sum() for mask in own]) + sigma * rng.normal(size=2)
        sizes = np.maximum(sizes, 1.0)
        self.shares_ = sizes / sizes.sum()
        multipliers, found = np.zeros(len(self.classes_)), []
        for step in range(STEPS):
            gradient = np.zeros(len(multipliers))
            for place, sign in enumerate((-1, 1)):
                scores = self._scores(self._chances[own[place]], sign, multipliers)
                total = softmax(scores / TEMPERATURE, axis=1).sum(axis=0)
                total += sigma * rng.normal(size=len(total))
                gradient -= sign * total / sizes[place]
            rate = 0.2 / (step + 1.0) ** 0.6
            moved = multipliers - rate * gradient
            # The step for the L1 norm.
            multipliers = np.sign(moved) * np.maximum(np.abs(moved) - rate * rho, 0.0)
            found.append(multipliers)
        self.multipliers_ = np.mean(found[STEPS // 2 :], axis=0)
        return self

    def predict(self, X: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Answer rows of known groups."""
        signs, chances = self._sign(groups), self.model_.predict_proba(self._with(X, groups))
        answers = np.zeros(len(X), dtype=int)
        for sign in (-1, 1):
            own = signs == sign
            answers[own] = self._scores(chances[own], sign, self.multipliers_).argmax(axis=1)
        return self.classes_[answers]

    def _scores(self, chances: np.ndarray, sign: int, multipliers: np.ndarray) -> np.ndarray:
        return self.shares_[(sign + 1) // 2] * chances - sign * multipliers

    def _sign(self, groups: np.ndarray) -> np.ndarray:
        return np.where(groups == self.names_[1], 1, -1)

    def _with(self, X: np.ndarray, groups: np.ndarray) -> np.ndarray:
        return np.column_stack([X, self._sign(groups)]).astype(np.float32)
