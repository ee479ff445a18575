"""Geometric numbers from uniform integers alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# Exact samplers need a rational epsilon: a multiple of this one.
RESOLUTION = 2**32

# (high, where) -> one uniform integer in 0 .. high-1 for each position in `where`, in which no
# position occurs twice.
Draw = Callable[[int, NDArray[np.intp]], NDArray[np.int64]]


def units_of(epsilon: float) -> int:
    """Round epsilon down to a whole number of units of 2**-32, which can only add noise."""
    if not 1.0 / RESOLUTION <= epsilon <= 2.0**20:
        raise ValueError(
            f"epsilon={epsilon!r} is not allowed for noisy counts: give a number "
            "between 2**-32 and 2**20"
        )
    return math.floor(epsilon * RESOLUTION)


def geometric(draw: Draw, units: int, size: int) -> NDArray[np.int64]:
    """Draw k >= 0 with probability proportional to ``exp(-k * units / 2**32)``.

    `units`: what `units_of` returned. Exact in law, given uniform integers: no logarithm, no
    division of random numbers and no rounding (Canonne, Kamath and Steinke, "The Discrete Gaussian
    for Differential Privacy", 2020, algorithm 2).
    """
    # First with a rate of one per RESOLUTION: remainder and quotient are independent.
    remainder = np.empty(size, dtype=np.int64)
    pending = np.arange(size)
    while pending.size:
        candidate = draw(RESOLUTION, pending)
        kept = _bernoulli_exp(draw, candidate, pending)
        remainder[pending[kept]] = candidate[kept]
        pending = pending[~kept]
    quotient = np.zeros(size, dtype=np.int64)
    running = np.arange(size)
    while running.size:
        running = running[_bernoulli_exp(draw, np.full(running.size, RESOLUTION), running)]
        quotient[running] += 1
    return (remainder + RESOLUTION * quotient) // units


def _bernoulli_exp(
    draw: Draw, numerator: NDArray[np.int64], where: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Toss coins that succeed with probability exp(-numerator / RESOLUTION), exactly."""
    # With x in [0, 1]: the first k at which a coin of probability x / k fails is odd
    # with probability 1 - x + x**2 / 2! - ... = exp(-x).
    odd = np.zeros(numerator.size, dtype=bool)
    running = np.arange(numerator.size)
    k = 1
    while running.size:
        succeeded = draw(RESOLUTION * k, where[running]) < numerator[running]
        odd[running[~succeeded]] = k % 2 == 1
        running = running[succeeded]
        k += 1
    return odd
