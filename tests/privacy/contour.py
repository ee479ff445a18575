"""Exact delta of a composition by a contour integral: no grid of losses, no convolution.

For any c > 0, ``(1 - exp(epsilon - l))_+`` is the integral of
``exp(z (l - epsilon)) / (z (z + 1))`` over z = c + iy, divided by 2 pi i; the mean over a sum of
T independent losses turns ``exp(z l)`` into the T-th power of one loss's moment generating
function. That function is an integral over the noise. Both integrals are of analytic functions
that vanish at both ends, for which even sums converge faster than any power of their width; and
c is chosen so that nothing cancels, however small delta is (Alghamdi et al., "The Saddle-Point
Method in Differential Privacy", 2023). Shares nothing with the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq, minimize_scalar

Steps = Sequence[tuple[int, float, float, bool]]  # times, rate, sigma, with the record first


def _noise(rate: float, sigma: float, with_first: bool, tilt: float):
    """Log density times width, and loss, over all noises that count at a tilt."""
    reach = 15.0 * sigma
    x = np.arange(-reach - max(tilt, 0.0) * (not with_first), 1.0 + tilt + reach, sigma / 60.0)
    log_plain = -0.5 * (x / sigma) ** 2 - math.log(sigma * math.sqrt(2.0 * math.pi))
    loss = np.logaddexp(np.log1p(-rate), math.log(rate) + (x - 0.5) / sigma**2)
    width = math.log(sigma / 60.0)
    return (log_plain + loss if with_first else log_plain) + width, loss if with_first else -loss


def _log_moment(z: np.ndarray, rate: float, sigma: float, with_first: bool) -> np.ndarray:
    density, loss = _noise(rate, sigma, with_first, float(z[0].real))
    peak = float((density + z[0].real * loss).max())
    parts = [
        np.exp(density + loss * part[:, None] - peak).sum(axis=1) for part in np.array_split(z, 40)
    ]
    return np.log(np.concatenate(parts)) + peak


def log_moment(steps: Steps, tilt: float) -> float:
    z = np.array([tilt + 0j])
    return sum(times * float(_log_moment(z, *rest)[0].real) for times, *rest in steps)


def contour(steps: Steps, delta: float, nodes: int = 1200):
    """Function delta(epsilon), accurate near the epsilon of a given delta; and a larger epsilon."""

    def chernoff(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        return (log_moment(steps, tilt) - math.log(delta)) / tilt

    tilt = math.exp(minimize_scalar(chernoff, bounds=(-5.0, 6.0), method="bounded").x)
    spread = 1e-3 * tilt
    second = sum(log_moment(steps, tilt + s * spread) * w for s, w in ((-1, 1), (0, -2), (1, 1)))
    reach = 12.0 / math.sqrt(max(second, 1e-12)) * spread
    while True:
        y = np.linspace(0.0, reach, nodes // 2 + 1)  # below the axis are the conjugates
        z = tilt + 1j * y
        total = sum(times * _log_moment(z, *rest) for times, *rest in steps)
        size = np.exp(total.real - total.real.max()) / np.abs(z * (z + 1.0))
        if size[-1] < 1e-14 * size.max():
            break
        reach, nodes = 2.0 * reach, 2 * nodes

    def delta_at(epsilon: float) -> float:
        values = np.exp(total - z * epsilon) / (z * (z + 1.0))
        return float((2.0 * values.real.sum() - values[0].real) * (y[1] - y[0]) / (2.0 * math.pi))

    return delta_at, chernoff(math.log(tilt)), tilt


def exact_epsilon(steps: Steps, delta: float) -> float:
    """Epsilon at which the composition's delta is the given one."""
    delta_at, high, tilt = contour(steps, delta)
    low = high - 1.0 / tilt
    while delta_at(low) < delta:
        low, high = low - 1.0 / tilt, low
    return float(brentq(lambda e: math.log(delta_at(e) / delta), low, high, xtol=1e-12))
