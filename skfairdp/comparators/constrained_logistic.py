"""Logistic regression whose covariances with group membership are bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

# Linearised(margins) -> matrix: gradients of the constrained covariances at a model with
# these margins. The covariances are homogeneous in the weights, so they are matrix @ weights.
Linearised = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_SUFFICIENT = 1e-4  # share of the predicted decrease that a step has to bring
_SHORTEST = 2.0**-12


@dataclass(frozen=True)
class Fitted:
    """What a fit came to."""

    weights: NDArray[np.float64]  # (d,): the model
    violation: float  # Largest excess of a covariance over its bound
    n_iter: int
    converged: bool  # Whether it converged inside the bounds, up to the tolerance


def fit_constrained(
    X: NDArray[np.float64],
    y: NDArray[np.int64],
    linearised: Linearised,
    bound: float,
    *,
    ridge: NDArray[np.float64],
    max_iter: int,
    tol: float,
) -> Fitted:
    """Minimise the mean logistic loss subject to bounded covariances.

    Sequential quadratic programming: each step minimises the loss' quadratic model (with
    its full Hessian) subject to the constraints linearised at the current weights, and
    goes as far along as an exact penalty falls. With constraints that are linear anyway
    this is Newton's method and converges to the optimum; with those of misclassified
    rows, which are differences of convex functions, to a stationary point.

    `bound`: largest absolute value of each covariance. `ridge` (d,): strength of the penalty
    ``ridge @ weights**2 / 2``; its small positive entries keep the Hessian regular. `tol`: ends
    when a full step would move no weight by more, or when loss and penalty fall by less than
    ``tol**2``; counts as converged if no covariance exceeds its bound by more than `tol` then.
    """
    weights = np.zeros(X.shape[1])
    margins = X @ weights
    penalty, violation, n_iter, at_rest = 1.0, 0.0, 0, False
    while n_iter < max_iter and not at_rest:
        n_iter += 1
        chance = expit(margins)
        gradient = X.T @ (chance - y) / len(y) + ridge * weights
        scaled = X * np.sqrt(chance * (1.0 - chance) / len(y))[:, None]
        hessian = scaled.T @ scaled
        hessian[np.diag_indices_from(hessian)] += ridge
        matrix = linearised(margins)
        covariances = matrix @ weights
        move, prices = _quadratic_step(hessian, gradient, matrix, covariances, bound)
        # Exact if above the multipliers' largest sum, which a convex bound rounds up.
        penalty = max(penalty, 2.0 * np.abs(prices).sum())
        excess = _excess(covariances, bound)
        expected = gradient @ move - penalty * excess
        now = _loss(margins, y) + ridge @ weights**2 / 2 + penalty * excess
        length, drift = 1.0, X @ move
        while length > _SHORTEST:
            nearer = weights + length * move
            there = margins + length * drift
            outside = _excess(linearised(there) @ nearer, bound)
            value = _loss(there, y) + ridge @ nearer**2 / 2 + penalty * outside
            if value <= now + _SUFFICIENT * length * min(expected, 0.0):
                break
            length /= 2.0
        else:
            at_rest, violation = True, excess
            break
        weights, margins, violation = nearer, there, outside
        # The covariances of misclassified rows have a kink at each row's boundary, and the
        # steps may end among kinks, where only shorter and shorter ones lead down.
        at_rest = bool(np.abs(move).max() <= tol or now - value <= tol**2)
    return Fitted(weights, float(violation), n_iter, at_rest and violation <= tol)


def _loss(margins: NDArray, y: NDArray) -> float:
    return float(np.mean(np.logaddexp(0.0, margins) - y * margins))


def _excess(covariances: NDArray, bound: float) -> float:
    return float((np.abs(covariances) - bound).max(initial=0.0))


def _quadratic_step(
    hessian: NDArray, gradient: NDArray, matrix: NDArray, covariances: NDArray, bound: float
) -> tuple[NDArray, NDArray]:
    """Minimise the quadratic model where ``|covariances + matrix @ move| <= bound``.

    There are few constraints, so the dual is solved: a lasso in their multipliers, one
    coordinate at a time.
    """
    factor = cho_factor(hessian)
    newton = -cho_solve(factor, gradient)
    if not len(matrix):
        return newton, np.zeros(0)
    response = cho_solve(factor, matrix.T)
    coupling = matrix @ response
    free = covariances + matrix @ newton
    prices = np.zeros(len(matrix))
    for _ in range(1000):
        before = prices.copy()
        for j in range(len(prices)):
            if coupling[j, j] <= 0.0:
                continue
            rest = free[j] - coupling[j] @ prices + coupling[j, j] * prices[j]
            # Inside the bounds a constraint has no price; outside, the one that ends there.
            prices[j] = np.sign(rest) * max(abs(rest) - bound, 0.0) / coupling[j, j]
        if np.abs(prices - before).max() <= 1e-6 * np.abs(prices).max():
            break
    # Which bounds hold is known now; what they cost follows from linear equations, whose
    # solution is not unique because memberships add up to one.
    held, sides = prices != 0.0, np.sign(prices)
    wanted = free[held] - bound * sides[held]
    exact = np.linalg.lstsq(coupling[np.ix_(held, held)], wanted, rcond=1e-12)[0]
    if bound == 0.0 or (np.sign(exact) == sides[held]).all():
        prices[held] = exact
    return newton - response @ prices, prices
