"""The training loop that every noisy-gradient mechanism shares, and its learning rates."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from tqdm import tqdm

from skfairdp.engine.clipping.norms import rows_of
from skfairdp.engine.optimizers import FlatOptimizer
from skfairdp.engine.release import NoisyRelease
from skfairdp.engine.row_blocks import few_threads
from skfairdp.foundation.parameters import POSITIVE, SHARE
from skfairdp.privacy.plan import Segment


@dataclass
class Progress:
    """Position in the plan, shown as a bar that knows nothing but the step count."""

    total: int
    shown: bool | None  # None shows the bar on a terminal, and never in a worker process
    label: str

    def __post_init__(self) -> None:
        worker = multiprocessing.parent_process() is not None
        disable = (True if worker else None) if self.shown is None else not self.shown
        self._bar = tqdm(total=self.total, disable=disable, desc=self.label, unit="step")
        self.step = 0

    def advance(self) -> None:
        self.step += 1
        self._bar.update()

    def close(self) -> None:
        self._bar.close()


def run_segment(
    segment: Segment,
    release: NoisyRelease,
    optimizer: FlatOptimizer,
    *,
    progress: Progress,
    before_step: Callable[[], None] | None = None,
    learning_rate: Callable[[int], float] | None = None,
    after_step: Callable[[int], bool] | None = None,
    adjust_gradient: Callable[[Tensor], Tensor] | None = None,
    released_gradient: Callable[[Segment], Tensor] | None = None,
) -> bool:
    """Run all steps of one segment.

    `release`: the only access to the rows. `before_step`: post-processing of released weights
    before each step, e.g. a projection. `learning_rate`: learning rate of a step, from the
    number of steps done. `after_step`: called with the number of steps done;
    training ends early when it returns True, and the rest of the plan may be left. It sees
    released values only. `adjust_gradient`: post-processing of each released gradient, shape (p,)
    and float64, before the optimizer gets it. `released_gradient`: releases the gradient of a
    step, where more is released with it than ``release.gradient`` does: calls one of the other
    releases, keeps what belongs to the mechanism and returns the gradient, shape (p,) and
    float64. Result: whether all steps were done.
    """
    gradient_of = release.gradient if released_gradient is None else released_gradient
    with few_threads(rows_of(segment), release.row_shape, optimizer.size):
        for _ in range(segment.steps):
            if learning_rate is not None:
                optimizer.set_lr(learning_rate(progress.step))
            if before_step is not None:
                before_step()
            gradient = gradient_of(segment)
            if adjust_gradient is not None:
                gradient = adjust_gradient(gradient)
            optimizer.step(gradient)
            progress.advance()
            if after_step is not None and after_step(progress.step):
                release.meter.stop()
                return False
        return True


def schedule_factors(schedule: Any, steps: int) -> list[float]:
    """Factor on the learning rate at every step, which depends on the step alone.

    `schedule`: none keeps the rate; "linear" and "cosine" lower it to a tenth over the run; pairs
    ``(fraction, factor)`` set the factor from that fraction of the steps on. Raises ValueError:
    `schedule` is not one of these.
    """
    if schedule is None:
        return [1.0] * steps
    positions = [step / max(1, steps) for step in range(steps)]
    if schedule == "linear":
        return [1.0 - 0.9 * position for position in positions]
    if schedule == "cosine":
        return [0.1 + 0.45 * (1.0 + math.cos(math.pi * position)) for position in positions]
    listed = isinstance(schedule, Sequence) and not isinstance(schedule, str)
    if not listed or not all(map(_is_pair, schedule)):
        raise ValueError(
            "'learning_rate_schedule' must be None, 'linear', 'cosine' or a sequence of pairs "
            f"(fraction of steps in [0, 1], factor > 0); got {schedule!r}."
        )
    pairs = sorted(((float(start), float(factor)) for start, factor in schedule), reverse=True)
    return [next((factor for start, factor in pairs if at >= start), 1.0) for at in positions]


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, Sequence) or len(pair) != 2:
        return False
    return SHARE.accepts(pair[0]) and POSITIVE.accepts(pair[1])
