"""Learning-rate schedules that depend on the step alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from skfairdp.parameters import Number

_FRACTION = Number(0.0, 1.0)
_FACTOR = Number(0.0, low_open=True)


def schedule_factors(schedule: Any, steps: int) -> list[float]:
    """Factor on the learning rate at every step.

    `schedule`: none keeps the rate; "linear" and "cosine" lower it to a tenth over the run; pairs
    ``(fraction, factor)`` set the factor from that fraction of the steps on. Raises ValueError:
    `schedule` is none of these.
    """
    if schedule is None:
        return [1.0] * steps
    positions = [step / max(1, steps) for step in range(steps)]
    if schedule == "linear":
        return [1.0 - 0.9 * position for position in positions]
    if schedule == "cosine":
        return [0.1 + 0.45 * (1.0 + math.cos(math.pi * position)) for position in positions]
    pairs = _pairs(schedule)
    return [
        next((factor for start, factor in reversed(pairs) if position >= start), 1.0)
        for position in positions
    ]


def _pairs(schedule: Any) -> list[tuple[float, float]]:
    listed = isinstance(schedule, Sequence) and not isinstance(schedule, str)
    if listed and all(_is_pair(pair) for pair in schedule):
        return sorted((float(start), float(factor)) for start, factor in schedule)
    raise ValueError(
        "'learning_rate_schedule' must be None, 'linear', 'cosine' or a sequence of pairs "
        f"(fraction of steps in [0, 1], factor > 0); got {schedule!r}."
    )


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, Sequence) or len(pair) != 2:
        return False
    return _FRACTION.accepts(pair[0]) and _FACTOR.accepts(pair[1])
