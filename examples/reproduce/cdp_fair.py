"""CDP-Fair, rebuilt: a private score, then a private threshold for each of two groups.

Xue and Yu, "Federated fairness-aware classification under differential privacy" (arXiv
2603.24392). Its abstract describes two steps under a constraint on demographic disparity; CDP-Fair
is the one for a single server. What the abstract leaves open is taken from the classifier that it
makes private (Zeng, Cheng and Dobriban, "Minimax optimal fair classification with bounded
demographic disparity", 2024): with the group a, 0 or 1, known at prediction, and its share pi_a,
the rule is ``eta(x, a) > 1/2 + (2a - 1) t / (2 pi_a)``, where t is the number nearest to 0 with
which selection rates differ by at most alpha. It is found here by bisection, over noisy counts of
who is selected. Rows are in one of two parts, so each step has all of epsilon.

Equal opportunity is an extension made here, by the rule of the same three authors for it ("Bayes-
optimal classifiers under group fairness", 2022): ``eta(x, a) > p_a / (2 p_a - (2a - 1) t)`` with
p_a the share of positive rows of group a among all rows; only positive rows are counted.
"""

from __future__ import annotations

import numpy as np
from dp2dp import LABELLED, gaussian_multiplier

from skfairdp import DPSGDClassifier, default_net

STEPS = 12


class CDPFair:
    """Two steps; `calibrate` repeats the second one, which costs as much again.

    `epsilon`, `delta`: of each step, for different rows. `seed`: of the parts and the noise.
    `notion`: "demographic_parity" or "equal_opportunity".
    """

    def __init__(
        self, *, epsilon: float, delta: float, seed: int, notion: str = "demographic_parity"
    ) -> None:
        self.epsilon, self.delta, self.seed, self.notion = epsilon, delta, seed, notion

    def fit(self, X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> CDPFair:
        """Learn a private score from one part, with the group as a column."""
        first = np.random.default_rng(self.seed).random(len(y)) < LABELLED
        self.names_ = np.unique(groups)
        model = DPSGDClassifier(
            default_net().set_params(module__hidden_sizes=(), lr=0.05),
            epsilon=self.epsilon,
            delta=self.delta,
            batch_size=2048,
            max_epochs=40,
            random_state=self.seed,
            progress=False,
        )
        self.model_ = model.fit(self._with(X[first], groups[first]), y[first])
        self._one = self._code(groups[~first])
        self._eta = self._score(X[~first], groups[~first])
        self._counted = np.ones(len(self._one))
        if self.notion == "equal_opportunity":
            self._counted = (y[~first] == self.model_.classes_[1]).astype(float)
        return self

    def calibrate(self, alpha: float) -> CDPFair:
        """Find the threshold for a disparity, on the other part."""
        rng = np.random.default_rng([self.seed, round(1e4 * alpha)])
        # A record adds one to one size, and in each step one to one count of selected rows.
        sigma = gaussian_multiplier(self.epsilon, self.delta, STEPS + 2)
        sizes = np.maximum(self._by_group(self._counted) + sigma * rng.normal(size=2), 1)
        # Of opportunity p_a, where the number of all rows is public; else pi_a.
        n = len(self._one) if self.notion == "equal_opportunity" else sizes.sum()
        self.shares_ = sizes / n

        def disparity(t: float) -> float:
            selected = self._eta > self._thresholds(self._one, t)
            counts = self._by_group(self._counted * selected)
            rates = (counts + sigma * rng.normal(size=2)) / sizes
            return float(rates[1] - rates[0])

        free = disparity(0.0)
        self.t_ = 0.0
        if abs(free) > alpha:
            # A larger t selects fewer of group 1 and more of group 0.
            low, high = 0.0, float(np.sign(free)) * self.shares_.min()
            for _ in range(STEPS):
                middle = 0.5 * (low + high)
                # Past 0 the disparity has the other sign, and t is too large.
                above = np.sign(free) * disparity(middle) > alpha
                low, high = (middle, high) if above else (low, middle)
            self.t_ = high
        return self

    def predict(self, X: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Answer rows of known groups."""
        selected = self._score(X, groups) > self._thresholds(self._code(groups), self.t_)
        return self.model_.classes_[selected.astype(int)]

    def _thresholds(self, one: np.ndarray, t: float) -> np.ndarray:
        shares, t = self.shares_[one], (2 * one - 1) * t
        if self.notion == "equal_opportunity":
            return shares / (2.0 * shares - t)
        return 0.5 + t / (2.0 * shares)

    def _by_group(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self._one, values, minlength=2)

    def _score(self, X: np.ndarray, groups: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(self._with(X, groups))[:, 1]

    def _code(self, groups: np.ndarray) -> np.ndarray:
        return (groups == self.names_[1]).astype(int)

    def _with(self, X: np.ndarray, groups: np.ndarray) -> np.ndarray:
        return np.column_stack([X, self._code(groups)]).astype(np.float32)
