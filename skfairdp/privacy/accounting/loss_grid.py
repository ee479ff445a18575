"""How finely privacy losses are resolved.

Losses are rounded up to a grid. dp_accounting's fixed interval of 1e-4 overstates
epsilon by a fifth where a single step loses less than that, and fills the memory where
a step loses thousands; every interval gives an upper bound.
"""

from __future__ import annotations

import math

from dp_accounting import dp_event

from skfairdp.privacy.accounting.events import parts_of

# dp_accounting's own interval, never exceeded unless the range of losses is huge.
COARSEST = 1e-4
# Below this the library's differences of hockey-stick curves lose their digits.
FINEST = 1e-6
# Rounding up to a grid of interval h adds at most h**2 / 6 to the variance of a
# step's loss, so this share of the standard deviation costs epsilon about 0.1 %.
SHARE_OF_DEVIATION = 0.11
# Largest arrays of a single step and of the composition (float64 numbers).
STEP_POINTS = 60_000
TOTAL_POINTS = 500_000


def grid_interval(event: dp_event.DpEvent) -> float:
    """Grid interval that is fine enough for the answer and small enough for memory."""
    losses = [_loss(part, count) for part, count in parts_of(event)]
    total = sum(count for count, *_ in losses)
    variance = sum(count * of_one for count, of_one, _, _ in losses)
    mean = sum(count * of_one for count, _, of_one, _ in losses)
    largest = max((size for *_, size in losses), default=0.0)
    wanted = SHARE_OF_DEVIATION * math.sqrt(variance / total) if total else COARSEST
    fine = min(COARSEST, max(FINEST, wanted))
    spread = mean + 10.0 * math.sqrt(2.0 * mean) + largest
    return max(fine, largest / STEP_POINTS, spread / TOTAL_POINTS)


def _loss(event: dp_event.DpEvent, count: int) -> tuple[int, float, float, float]:
    """How often an event loses privacy, and roughly the variance, mean and largest loss of one."""
    match event:
        case dp_event.GaussianDpEvent(noise_multiplier=sigma):
            # The library composes equal Gaussian queries in closed form.
            sigma /= math.sqrt(count)
            return 1, sigma**-2, sigma**-2 / 2, (1 + 20 * sigma) / (2 * sigma**2)
        case dp_event.PoissonSampledDpEvent(
            sampling_probability=rate, event=dp_event.GaussianDpEvent(noise_multiplier=sigma)
        ):
            chi_square = rate**2 * math.expm1(min(sigma**-2, 600.0))
            mean = min(rate / (2 * sigma**2), math.log1p(chi_square))
            shift = (1 + 20 * sigma) / (2 * sigma**2)
            largest = shift if shift > 600.0 else math.log1p(rate * math.expm1(shift))
            return count, chi_square, mean, largest
        case dp_event.DiscreteLaplaceDpEvent(noise_parameter=scale, sensitivity=sensitivity):
            size = scale * sensitivity
        case dp_event.LaplaceDpEvent(noise_multiplier=scale):
            size = 1.0 / scale
        case _:
            return count, 1.0, 0.0, 0.0
    return count, size**2, min(size, size**2), size
