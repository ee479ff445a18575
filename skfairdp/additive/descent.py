"""Descent by the mean of all noisy gradients, with shrinkage that follows from known noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from skfairdp.additive.design import NORM, Design

Floats = NDArray[np.float64]

# Weight of gradient t in the mean, times t: later ones, taken nearer to the end, weigh more.
_LATE = 2.0
# In how many levels' worth of evidence the prior variance of a block of weights is believed.
_BELIEF = 10.0
# Smallest variance of a block, and smallest curvature, as shares of the prior and the largest one.
_LEAST_VARIANCE, _LEAST_CURVATURE = 0.1, 0.05
# Ridge of the intercept, which is hardly shrunk.
_INTERCEPT_RIDGE = 1e-3

_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(15)
_SHARES /= _SHARES.sum()


@dataclass(frozen=True)
class Slopes:
    """Derivative of a record's clipped loss by its output, where outputs are normal.

    `at`: maps mean and variance of the outputs to the mean curvature of the loss and the mean
    square of its derivative. `largest`: largest curvature of any record.
    """

    at: Callable[[float, float], tuple[float, float]]
    largest: float


def clipped_logistic(limit: float, mean: float, variance: float) -> tuple[float, float]:
    """Curvature and squared derivative of logistic losses whose derivative is clipped.

    Labels are taken to be such that the clipped derivative of each output has the mean 0. `limit`:
    of the derivative, in (0, 1]. `mean`, `variance`: of the outputs, which are normal.
    """
    chance = expit(mean + math.sqrt(variance) * _NODES)
    up, down = np.minimum(chance, limit), np.minimum(1.0 - chance, limit)
    positive = up / (up + down)
    unclipped = (1.0 - positive) * (chance < limit) + positive * (1.0 - chance < limit)
    curvature = chance * (1.0 - chance) * unclipped
    square = (1.0 - positive) * up**2 + positive * down**2
    return float(_SHARES @ curvature), float(_SHARES @ square)


class AveragedNewton:
    """Newton's method on the mean of noisy gradients, with a ridge for each block of weights.

    After t gradients the weights are ``m - (H + R)^-1 (g + R m)``: m is the mean of the weights
    that gradients were taken at, g that of the gradients, both with the same increasing weights, so
    that the noise in g is known. H is the curvature if columns were independent, from the noisy
    counts of levels, and R a ridge that makes the expected error least. See "Shrinkage" in
    ``docs/theory/additive.md``. Everything here is computed from released and public numbers.

    `counts`: noisy number of rows at each finest level of `design`. `n_rows`: public number of
    records. `noise_variance`: of the noise in one sum of gradients over all rows. `slopes`: of the
    loss. `prior`: variance of the model's outputs that is believed in beforehand.
    """

    def __init__(
        self,
        design: Design,
        counts: Floats,
        *,
        n_rows: int,
        noise_variance: float,
        slopes: Slopes,
        prior: float,
    ) -> None:
        self.weights: Floats = np.zeros(design.width + 1)
        self._n, self._noise, self._slopes = float(n_rows), noise_variance, slopes
        self._prior = prior / NORM**2
        self._block = design.block_of_inputs
        self._columns: list[tuple[slice, Floats]] = []
        self._means = np.append(np.zeros(design.width), 1.0)  # of the inputs, and the constant 1
        square, start = design.value**2, 0
        for inputs, width in design.columns():
            end = start + inputs.shape[1]
            own = np.maximum(counts[start:end], 1.0)
            own *= self._n / own.sum()
            start, first = end, int(inputs[0, 0])
            of_level = np.zeros((width, inputs.shape[1]))
            for resolution in inputs - first:
                of_level[resolution, np.arange(inputs.shape[1])] = 1.0
            where, means = slice(first, first + width), of_level @ own
            self._means[where] = design.value * means / self._n
            products = (of_level * own) @ of_level.T - np.outer(means, means) / self._n
            self._columns.append((where, square * products))
        self._mass = design.value * self._n * self._means[:-1]
        self._mean_weights, self._mean_gradient = np.zeros((2, design.width + 1))
        self._squares = 0.0  # Sum of the squared weights of all gradients
        self._steps = 0
        self._curvature, self._slope_square = slopes.largest, 0.0
        self._ridge, self._factors = np.empty(0), list[tuple[Floats, bool]]()

    def move(self, gradient: Floats) -> Floats:
        """Take in a released mean gradient (p,), and return by how much the weights fall."""
        share = _LATE / (self._steps + _LATE)
        self._mean_weights += share * (self.weights - self._mean_weights)
        self._mean_gradient += share * (self._n * gradient - self._mean_gradient)
        self._squares = (1.0 - share) ** 2 * self._squares + share**2
        self._steps += 1
        self._shrink()
        before, self.weights = self.weights, self._minimum()
        return before - self.weights

    def _shrink(self) -> None:
        """Estimate curvature and variances of blocks, and set the ridge."""
        spread = sum(float(self.weights[w] @ p @ self.weights[w]) for w, p in self._columns)
        mean = float(self._means @ self.weights)
        curvature, self._slope_square = self._slopes.at(mean, max(spread, 0.0) / self._n)
        if self._steps > 1:  # at weights of 0 most losses are linear
            least = _LEAST_CURVATURE * self._slopes.largest
            self._curvature = min(max(curvature, least), self._slopes.largest)
        noise = self._noise * self._squares + self._slope_square * self._mass
        curvatures = self._curvature * self._mass
        # Variances are estimated from the minimum under the prior, never from that of earlier
        # estimates, which would raise them again and again.
        self._set_ridge(noise / (self._prior * curvatures))
        found = self._minimum()[:-1]
        kept = curvatures / (curvatures + self._ridge[:-1])
        of_noise = noise / (curvatures + self._ridge[:-1]) ** 2
        evidence = kept**2 / of_noise
        levels = np.bincount(self._block)
        total = np.bincount(self._block, evidence * kept**2)
        believed = _BELIEF * total / levels
        seen = np.bincount(self._block, evidence * (found**2 - of_noise))
        variances = (seen + believed * self._prior) / (total + believed)
        variances = np.maximum(variances, _LEAST_VARIANCE * self._prior)[self._block]
        self._set_ridge(noise / (variances * curvatures))

    def _set_ridge(self, ridge: Floats) -> None:
        self._ridge = np.append(ridge, _INTERCEPT_RIDGE)
        self._factors = [
            cho_factor(self._curvature * products + np.diag(self._ridge[where]))
            for where, products in self._columns
        ]

    def _minimum(self) -> Floats:
        """Weights at which the gradient, as it is estimated, and the ridge's add up to 0."""
        slope = self._mean_gradient + self._ridge * self._mean_weights
        step, common = self._apart(slope), self._apart(self._means)
        # All columns share the constant: one more direction than the blocks (Sherman and Morrison).
        shared = 1.0 / (self._curvature * self._n) + self._means @ common
        return np.asarray(self._mean_weights - step + common * (self._means @ step / shared))

    def _apart(self, vector: Floats) -> Floats:
        """Solve for the columns one by one."""
        solved = vector / self._ridge
        for (where, _), factor in zip(self._columns, self._factors, strict=True):
            solved[where] = cho_solve(factor, vector[where])
        return solved
