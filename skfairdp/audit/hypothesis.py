"""What the tests of a privacy claim share: checks of their inputs, and inversion."""

from __future__ import annotations

from collections.abc import Callable

from skfairdp.parameters import PROBABILITY, Number, check_arguments

_BISECTION_STEPS = 60


def boundary(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Bracket of the point where `holds` turns from true to false."""
    if not holds(low):
        return low, low
    if holds(high):
        return high, high
    for _ in range(_BISECTION_STEPS):
        middle = 0.5 * (low + high)
        if holds(middle):
            low = middle
        else:
            high = middle
    return low, high


def error_of(confidence_level: float) -> float:
    check_arguments(locals(), confidence_level=PROBABILITY)
    return 1.0 - confidence_level


def check_loss(epsilon: float, delta: float) -> None:
    check_arguments(locals(), epsilon=Number(0.0, finite=False), delta=Number(0.0, 1.0))


def check_count(name: str, count: int, of: str, largest: int) -> None:
    if not 0 <= count <= largest:
        raise ValueError(f"{name} must lie between 0 and {of} = {largest}; got {count!r}.")
