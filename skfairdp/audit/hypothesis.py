"""What the tests of a privacy claim share: checks of their inputs, and inversion."""

from __future__ import annotations

from collections.abc import Callable

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
    if not 0.0 < confidence_level < 1.0:
        raise ValueError(
            f"confidence_level must lie strictly between 0 and 1; got {confidence_level!r}."
        )
    return 1.0 - confidence_level


def check_loss(epsilon: float, delta: float) -> None:
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be a number >= 0; got {epsilon!r}.")
    if not 0.0 <= delta <= 1.0:
        raise ValueError(f"delta must lie between 0 and 1; got {delta!r}.")


def check_count(name: str, count: int, of: str, largest: int) -> None:
    if not 0 <= count <= largest:
        raise ValueError(f"{name} must lie between 0 and {of} = {largest}; got {count!r}.")
