"""Descent towards the posterior mean of an additive model's weights, given all known noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from skfairdp.additive.design import Design

Floats = NDArray[np.float64]

# Step t of T goes RATE / (t + DELAY T) of the way; the mean of the outputs, OF_MEAN times as far.
_RATE, _DELAY, _OF_MEAN = 2.0, 0.3, 2.0
# Prior variances fall with this power of the number of rows at a level.
_POWER = 0.75
# In how many levels' worth of evidence the prior variance of a block of weights is believed, and
# how far its estimate may be from it.
_BELIEF, _SCALES = 5.0, (0.1, 100.0)
# Smallest curvature as a share of the largest one.
_LEAST_CURVATURE = 0.05
# Steps from one estimate of curvature and prior variances to the next.
_EVERY = 5

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


class _Column:
    """Weights of one column, with the posterior that a noisy gradient of them leads to.

    `counts` (resolutions and levels are those of `of_level`): rows at each finest level.
    """

    def __init__(self, where: slice, of_level: Floats, counts: Floats, value: float) -> None:
        self.where = where
        rows = counts.sum()
        at = of_level @ counts
        self.means = value * at / rows
        self.products = value**2 * ((of_level * counts) @ of_level.T - np.outer(at, at) / rows)
        squares, self._axes = np.linalg.eigh(self.products)
        self._squares = np.maximum(squares, 0.0)
        self._gain = np.empty(0)
        self._free: Floats | None = None

    def restrict(self, unit: Floats, free: Floats) -> Floats:
        """Allow weights in the span of `free` only, and return what is left of their variances.

        Their prior is that of independent weights, whose variances are multiples of `unit`, given
        that they are in the span.
        """
        self._free = np.linalg.qr(free / np.sqrt(unit)[:, None])[0].T * free.any(axis=1)
        return np.sum(self._free**2, axis=0)

    def learn(self, prior: Floats, curvature: float, noise: float, slope_square: float) -> Floats:
        """Set the gain for a noisy gradient, and return the posterior variances.

        `prior`: variances of the weights. `noise`: variance of the noise that was added to the
        gradient; the rows' own is `slope_square` times their products.
        """
        slopes = curvature * self._squares
        trust = slopes / (noise + slope_square * self._squares + np.finfo(float).tiny)
        root = np.sqrt(prior)
        back = np.diag(root) if self._free is None else self._free * root
        axes = root[:, None] * self._axes if self._free is None else back @ self._axes
        precision = (axes * (trust * slopes)) @ axes.T
        precision[np.diag_indices_from(precision)] += 1.0
        posterior = cho_solve(cho_factor(precision), back)
        posterior = root[:, None] * posterior if self._free is None else back.T @ posterior
        self._gain = posterior @ (self._axes * trust) @ self._axes.T
        self._curvature = curvature
        return np.diag(posterior).copy()

    def mean(self, weights: Floats, gradient: Floats) -> Floats:
        """Posterior mean after a gradient (of centred inputs) that was taken at `weights`."""
        return np.asarray(self._gain @ (self._curvature * (self.products @ weights) - gradient))


class PosteriorDescent:
    """Steps towards the posterior mean of the weights, whose prior is estimated on the way.

    The posterior is that of a linear model with independent columns, of curvatures that follow
    from noisy counts of levels, and of gradients whose noise is known. See "Steps" and "Prior" in
    ``docs/theory/additive.md``. Everything here is computed from released and public numbers.

    `counts`: noisy number of rows at each finest level of `design`. `n_rows`: public number of
    records. `noise_variance`: of the noise in one sum of gradients over all rows. `n_steps`:
    planned number of steps. `slopes`: of the loss. `prior`: variance of the model's outputs that
    is believed in beforehand. `free`: basis of the possible weights of each pair.
    """

    def __init__(
        self,
        design: Design,
        counts: Floats,
        *,
        n_rows: int,
        noise_variance: float,
        n_steps: int,
        slopes: Slopes,
        prior: float,
        free: Sequence[Floats] = (),
    ) -> None:
        self.weights: Floats = np.zeros(design.width + 1)
        self._n, self._noise, self._n_steps = float(n_rows), noise_variance, n_steps
        self._slopes, self._curvature = slopes, slopes.largest
        self._block = design.block_of_inputs
        self._columns: list[_Column] = []
        start = 0
        for inputs, width in design.columns():
            end = start + inputs.shape[1]
            own = np.maximum(counts[start:end], 1.0)
            own *= self._n / own.sum()
            start, first = end, int(inputs[0, 0])
            of_level = np.zeros((width, inputs.shape[1]))
            for resolution in inputs - first:
                of_level[resolution, np.arange(inputs.shape[1])] = 1.0
            where = slice(first, first + width)
            self._columns.append(_Column(where, of_level, own, design.value))
        self._means = np.concatenate([column.means for column in self._columns])
        mass = design.value * self._n * self._means
        unit = mass**-_POWER
        self._unit = unit * prior * self._n / (unit * mass).sum()
        self._scale = np.ones(int(self._block[-1]) + 1)
        self._kept = np.ones(len(self._unit))
        for column, own in zip(self._columns[len(design.levels) :], free, strict=True):
            self._kept[column.where] = column.restrict(self._unit[column.where], own)
        self._free = np.bincount(self._block, self._kept)
        self._posterior = self._kept * self._unit
        self._steps, self._left, self._squares = 0, 1.0, 0.0

    def move(self, gradient: Floats) -> Floats:
        """Take in a released mean gradient (p,), and return by how much the weights fall."""
        share = min(_RATE / (self._steps + _DELAY * self._n_steps), 1.0)
        # What is left of the start, and the sum of the squared weights of all gradients.
        self._left *= 1.0 - share
        self._squares = (1.0 - share) ** 2 * self._squares + share**2
        before = self.weights[:-1]
        output = float(self._means @ before + self.weights[-1])
        if self._steps % _EVERY == 0:
            self._learn(output)
        self._steps += 1
        slope = self._n * gradient
        centred = slope[:-1] - self._means * slope[-1]
        after = before.copy()
        for column in self._columns:
            own = column.where
            after[own] += share * (column.mean(before[own], centred[own]) - before[own])
        step = min(_OF_MEAN * share, 1.0)
        output -= step * float(slope[-1]) / (self._curvature * self._n)
        moved = np.append(after, output - self._means @ after)
        fall, self.weights = self.weights - moved, moved
        return fall

    def _learn(self, output: float) -> None:
        """Estimate curvature and variances, and what the next gradients are worth."""
        weights, block = self.weights[:-1], self._block
        if self._steps:
            # The variance of the posterior mean is what the posterior takes off the prior's; the
            # weights have come only a part of the way to it.
            variance, done = self._scale[block] * self._kept * self._unit, 1.0 - self._left
            lacking = (1.0 - done**2) * np.maximum(variance - self._posterior, 0.0)
            seen = np.bincount(block, (weights**2 + self._posterior + lacking) / self._unit)
            self._scale = ((seen + _BELIEF) / (self._free + _BELIEF)).clip(*_SCALES)
        spread = sum(float(weights[c.where] @ c.products @ weights[c.where]) for c in self._columns)
        curvature, square = self._slopes.at(output, max(spread, 0.0) / self._n)
        largest = self._slopes.largest
        self._curvature = min(max(curvature, _LEAST_CURVATURE * largest), largest)
        prior, noise = self._scale[block] * self._unit, self._noise * self._squares
        self._posterior = np.concatenate(
            [c.learn(prior[c.where], self._curvature, noise, square) for c in self._columns]
        )
