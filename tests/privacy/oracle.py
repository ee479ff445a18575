"""Epsilon of a plan by an independent integral: numpy and scipy only.

Nothing here is shared with the package: neither dp_accounting, nor the plan's own
arithmetic on multipliers. The privacy loss of one step is put on a grid by its exact
distribution function, composed with a fast Fourier transform, and integrated into
delta(epsilon). Values are rounded to the nearest grid point and not up, so the answer
is an approximation (within about 0.3 %), not a bound.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np
from scipy.special import ndtr

from skfairdp.privacy.plan import CountRelease, LaplaceSum, Plan, Segment

LARGEST_GRID = 2**20


def oracle_epsilon(plan: Plan, delta: float) -> float:
    """Epsilon of the plan's most expensive cell under adding or removing a record."""
    return max(oracle_epsilons(plan, delta).values())


def oracle_change_epsilon(plan: Plan, delta: float) -> float:
    """Epsilon of the worst pair of cells between which one record moves."""
    cells = range(len(plan.cells))
    pairs = [(u, v) for u in cells for v in cells if u != v] or [(0, 0)]
    known = {}
    for u, v in pairs:
        leave = [(*_figures(segment, u), True) for segment in plan.segments]
        join = [(*_figures(segment, v), False) for segment in plan.segments]
        moved = tuple(step for step in leave + join if step[0] > 0 and step[2] < math.inf)
        known[moved] = 0.0
    for moved in known:
        without_noise = any(sigma == 0 for _, _, sigma, _ in moved)
        counts = plan.counts * 2
        known[moved] = math.inf if without_noise else _one_pair(moved, counts, delta)
    return max(known.values())


def oracle_epsilons(plan: Plan, delta: float) -> dict[Hashable, float]:
    """Epsilon for a record of each cell."""
    if plan.adjacency == "change-attribute":
        return dict.fromkeys(plan.cells, oracle_change_epsilon(plan, delta))
    known: dict[tuple, float] = {}
    result = {}
    for cell, label in enumerate(plan.cells):
        steps = tuple(_figures(segment, cell) for segment in plan.segments)
        steps = tuple(step for step in steps if step[0] > 0 and step[2] < math.inf)
        pure = tuple(
            CountRelease(name=sum_.name, epsilon=_pure_epsilon(sum_, cell)) for sum_ in plan.sums
        )
        key = steps, pure
        if key not in known:
            known[key] = _epsilon(steps, plan.counts + pure, delta)
        result[label] = known[key]
    return result


def _pure_epsilon(released: LaplaceSum, cell: int) -> float:
    """Largest log ratio of two Laplace densities that one record can cause."""
    return released.weights[cell] * released.max_norm / released.scale


def _figures(segment: Segment, cell: int) -> tuple[int, float, float]:
    """Steps, rate and noise multiplier, recomputed from what is really added."""
    precision = 0.0
    for block in segment.blocks:
        if block.charged_multipliers is not None:
            sigma = block.charged_multipliers[cell]
        else:
            moved = block.weights[cell] * block.max_norm
            sigma = block.noise_std / moved if moved > 0 else math.inf
        precision += 1 / sigma**2 if sigma > 0 else math.inf
    sigma = math.inf if precision == 0 else 1 / math.sqrt(precision)
    return segment.steps, segment.rates[cell], sigma


def _epsilon(
    steps: tuple[tuple[int, float, float], ...], counts: tuple[CountRelease, ...], delta: float
) -> float:
    if any(sigma == 0 for _, _, sigma in steps):
        return math.inf
    return max(
        _one_pair(tuple((*step, remove) for step in steps), counts, delta)
        for remove in (True, False)
    )


def _one_pair(
    steps: tuple[tuple[int, float, float, bool], ...],
    counts: tuple[CountRelease, ...],
    delta: float,
) -> float:
    """Compose steps, each in its direction: with the record first (True) or without."""
    moments = [(times, *_moments(rate, sigma, remove)) for times, rate, sigma, remove in steps]
    for count in counts:
        mean = count.epsilon * math.tanh(count.epsilon / 2)
        variance = count.epsilon**2 - mean**2
        moments.append((count.releases, mean, variance, count.epsilon))
    if not moments:
        return 0.0
    mean = sum(times * m for times, m, _, _ in moments)
    deviation = math.sqrt(sum(times * v for times, _, v, _ in moments))
    reach = mean + 12 * deviation + 3 * max(top for _, _, _, top in moments)
    finest = min(math.sqrt(v) for _, _, v, _ in moments) / 12
    points = 2 ** math.ceil(math.log2(max(2 * reach / finest, 2**14)))
    points = min(points, LARGEST_GRID)
    width = 2 * reach / points
    grid = (np.arange(points) - points // 2) * width

    transform = np.ones(points // 2 + 1, dtype=complex)
    shift = 0.0
    for (times, rate, sigma, remove), (_, exact_mean, _, _) in zip(steps, moments, strict=False):
        masses = _masses(grid, width, rate, sigma, remove)
        shift += times * (exact_mean - float(masses @ grid))
        transform *= np.fft.rfft(np.fft.ifftshift(masses)) ** times
    for count in counts:
        masses = _two_points(grid, width, count.epsilon)
        transform *= np.fft.rfft(np.fft.ifftshift(masses)) ** count.releases
    composed = np.fft.fftshift(np.fft.irfft(transform, points)).clip(min=0)
    return _invert(composed, grid + shift, delta)


def _invert(masses: np.ndarray, losses: np.ndarray, delta: float) -> float:
    """Smallest epsilon with sum of mass * (1 - exp(epsilon - loss))_+ <= delta."""
    keep = losses >= 0
    masses, losses = masses[keep], losses[keep]
    above = np.cumsum(masses[::-1])[::-1]
    discounted = np.cumsum((masses * np.exp(-losses))[::-1])[::-1]
    at_grid = above - np.exp(np.minimum(losses, 700)) * discounted
    if above[0] - discounted[0] <= delta:
        return 0.0
    first = int(np.argmax(at_grid <= delta))
    return math.log((above[first] - delta) / discounted[first])


def _loss(x: np.ndarray, rate: float, sigma: float) -> np.ndarray:
    shift = (2 * x - 1) / (2 * sigma**2)
    if rate == 1:
        return shift
    return np.logaddexp(math.log1p(-rate), math.log(rate) + shift)


def _moments(rate: float, sigma: float, remove: bool) -> tuple[float, float, float]:
    """Mean, variance and far end of the loss of one step, by the trapezoidal rule."""
    x = np.linspace(-12 * sigma, 1 + 12 * sigma, 200_001)
    density = np.exp(-0.5 * (x / sigma) ** 2)
    if remove:
        density = (1 - rate) * density + rate * np.exp(-0.5 * ((x - 1) / sigma) ** 2)
    density /= density.sum()
    loss = _loss(x, rate, sigma) * (1 if remove else -1)
    mean = float(density @ loss)
    far = _loss(np.array([-7 * sigma, 1 + 7 * sigma]), rate, sigma)
    return mean, float(density @ (loss - mean) ** 2), float(np.abs(far).max())


def _masses(grid: np.ndarray, width: float, rate: float, sigma: float, remove: bool) -> np.ndarray:
    """Probability that the loss of one step is nearest to each grid point."""
    edges = np.append(grid - width / 2, grid[-1] + width / 2)
    with np.errstate(divide="ignore", over="ignore"):
        likelihood = np.exp(np.minimum(edges if remove else -edges, 700))
        x = sigma**2 * np.log(np.maximum(likelihood - (1 - rate), 0) / rate) + 0.5
    below = ndtr(x / sigma)
    if remove:
        below = (1 - rate) * below + rate * ndtr((x - 1) / sigma)
        return np.diff(below)
    return -np.diff(below)


def _two_points(grid: np.ndarray, width: float, epsilon: float) -> np.ndarray:
    """Loss of a count with discrete Laplace noise: +-epsilon, as randomized response."""
    masses = np.zeros(len(grid))
    higher = 1 / (1 + math.exp(-epsilon))
    for value, probability in ((epsilon, higher), (-epsilon, 1 - higher)):
        position = (value - grid[0]) / width
        left = math.floor(position)
        masses[left] += probability * (left + 1 - position)
        masses[left + 1] += probability * (position - left)
    return masses
