"""The training loop that every noisy-gradient mechanism shares."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from tqdm import tqdm

from skfairdp.engine.optimizers import FlatOptimizer
from skfairdp.engine.release import NoisyRelease
from skfairdp.engine.row_blocks import few_threads
from skfairdp.engine.sum_margins import rows_of
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
        """Count one step."""
        self.step += 1
        self._bar.update()

    def close(self) -> None:
        """Remove the bar."""
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

    `segment`: what is sampled, weighted and noised. `release`: the only access to the rows.
    `optimizer`: turns a released gradient into new weights. `before_step`: post-processing of
    released weights before each step, e.g. a projection. `learning_rate`: learning rate of a
    step, from the number of steps done. `after_step`: called with the number of steps done;
    training ends early when it returns True, and the rest of the plan may be left. It sees
    released values only. `adjust_gradient`: post-processing of each released gradient, shape (p,)
    and float64, before the optimizer gets it. `released_gradient`: releases the gradient of a
    step, where more is released with it than ``release.gradient`` does: calls one of the other
    releases, keeps what belongs to the mechanism and returns the gradient, shape (p,) and
    float64. Result: whether all steps were done.
    """
    gradient_of = release.gradient if released_gradient is None else released_gradient
    last_rate: float | None = None
    with few_threads(rows_of(segment), release.row_shape, optimizer.size):
        for _ in range(segment.steps):
            if learning_rate is not None:
                rate = learning_rate(progress.step)
                if rate != last_rate:
                    optimizer.set_lr(rate)
                    last_rate = rate
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
