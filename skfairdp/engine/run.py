"""Run of a fit: its rows, training loop and learning rates, and facts that processes agree on.

What trains loads torch; what a quote needs does not.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skfairdp.foundation.assumptions import PROCESSES
from skfairdp.foundation.parameters import POSITIVE, SHARE
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan, Segment
from skfairdp.receipts import RowFacts
from skfairdp.receipts.digests.state import WITHOUT_EFFECT, Recipe
from skfairdp.receipts.receipt import bind_each
from skfairdp.records.groups import Groups
from skfairdp.records.persons import Persons
from skfairdp.records.stored_rows import StoredRows

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from skfairdp.engine.clipping.base import Clipper
    from skfairdp.engine.nets import PreparedNet
    from skfairdp.engine.objectives import Objective
    from skfairdp.engine.optimizers import FlatOptimizer
    from skfairdp.engine.processes import Processes
    from skfairdp.engine.release import NoisyRelease, Rows


@dataclass
class Progress:
    """Position in the plan, shown as a bar that knows nothing but the step count."""

    total: int
    shown: bool | None  # None shows the bar on a terminal, and never in a worker process
    label: str

    def __post_init__(self) -> None:
        from tqdm import tqdm

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
    from skfairdp.engine.clipping import norms
    from skfairdp.engine.row_blocks import few_threads

    gradient_of = release.gradient if released_gradient is None else released_gradient
    with few_threads(norms.rows_of(segment), release.row_shape, optimizer.size):
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


@dataclass(frozen=True, eq=False)
class ReadRows:
    """Rows of a fit, checked and encoded."""

    X: Any  # (n, ...); (0, ...) where they are not in memory
    stored: StoredRows | None  # where they are then
    row_shape: tuple[int, ...]
    labels: NDArray[Any]  # codes of classes, negative for none; of a regressor the numbers
    groups: Groups | None  # with the totals of all processes
    persons: Persons | None  # None: each row is a record
    most: int  # rows that a record brings to a sum, at most
    classes: NDArray[Any] | None  # None for a regressor
    facts: RowFacts
    seed: int  # of what protects no record
    noise: NoiseSource


@dataclass(frozen=True, eq=False)
class ReadyNet:
    """Net of a fit, which the plan and the mechanism can use."""

    prepared: PreparedNet
    released: nn.Module  # copy that gets the trained weights, and nothing else of the rows
    link: str


@dataclass(frozen=True, eq=False)
class Training:
    """Everything that training needs, once no check is left."""

    plan: Plan
    ready: ReadyNet
    rows: Rows
    classes: NDArray[Any] | None
    n_groups: int
    objective: Objective
    clipper: Clipper
    noise: NoiseSource
    draws: AbstractContextManager[Any]
    learning_rates: list[float]
    steps_per_epoch: int
    stated: PrivacyGuarantee | None  # What is charged
    arithmetic: str  # What keeps that of a record its own, on this processor: an assumption
    processes: Processes | None  # None: this one alone


@dataclass(frozen=True)
class Run:
    """Everything a mechanism needs while it trains; dropped afterwards."""

    plan: Plan
    prepared: PreparedNet
    objective: Objective
    release: NoisyRelease
    noise: NoiseSource
    learning_rates: list[float]
    progress: Progress
    steps_per_epoch: int
    n_groups: int  # 1 where rows came without groups
    classes: NDArray[Any] | None = None  # labels in the order of their codes; None for a regressor

    def scores(self, output: torch.Tensor) -> torch.Tensor:
        """Turn outputs of the module into class probabilities (B, n_classes).

        Use this rather than a softmax: a module may have one logit, a logit for each class, or
        return probabilities, which its criterion decides.
        """
        return self.objective.scores(output)

    def decisions(self, output: torch.Tensor) -> torch.Tensor:
        """Turn outputs of the module into codes of predicted classes (B,), as `predict` does.

        Use this rather than an argmax, which is always 0 for a module with one logit.
        """
        return self.objective.decisions(output).long()

    @property
    def cell_sizes(self) -> NDArray[np.float64]:
        """Public number of records of each cell (n_cells,): declared, bought or read off the rows.

        Divide by these, and never by a number of rows that was counted in training.
        """
        segment = self.plan.segments[0]
        expected = np.asarray(segment.expected_sizes, dtype=np.float64)
        return expected / np.asarray(segment.rates, dtype=np.float64)

    def descend(self, segments: Sequence[Segment] | None = None, **options: Any) -> bool:
        """Run planned steps, by default all, with the net's optimizer and learning rates.

        `options` are those of `run_segment`. Result: whether all were
        done.
        """
        optimizer = self.prepared.optimizer()
        options |= {"progress": self.progress, "learning_rate": self.learning_rates.__getitem__}
        return all(
            run_segment(segment, self.release, optimizer, **options)
            for segment in (self.plan.segments if segments is None else segments)
        )


def refuse_idle_optimizer(prepared: PreparedNet) -> None:
    """Refuse an optimizer that takes no step with a gradient alone; the weights stay."""
    import torch

    vector = prepared.flat.vector
    before = vector.detach().clone()
    try:
        prepared.optimizer().step(torch.zeros_like(before))
    except Exception as error:
        raise ValueError(
            f"'net' has the optimizer {getattr(prepared.net.optimizer, '__name__', '?')}, "
            f"which takes no step with a gradient alone: {error}"
        ) from error
    finally:
        vector.data.copy_(before)


def joined(
    model: Any, processes: Processes, X: Any, classes: np.ndarray | None, groups: Groups | None
) -> tuple[int, Groups | None]:
    """Agree on the fit between processes; number of rows, and groups, of all of them."""
    import torch

    parameters = {n: Recipe(v) for n, v in model.get_params(deep=False).items()}
    known = {
        "class": type(model),
        "classes": None if classes is None else classes.tolist(),
        "groups": None if groups is None else list(groups.labels),
        "features": (X.shape[1:], list(getattr(model, "feature_names_in_", ()))),
        "ledger": model.ledger is None,
    }
    facts = {n: v for n, v in parameters.items() if n not in WITHOUT_EFFECT}
    processes.agree(bind_each(facts | known))
    if groups is not None:
        totals = processes.total(torch.from_numpy(groups.counts.astype(np.int64)))
        groups = replace(groups, totals=totals.numpy())
    return int(processes.total(torch.tensor(len(X)))), groups


def watched(processes: Processes, rows: Rows, vector: torch.Tensor, epoch: int) -> str:
    """Compare weights each epoch, refuse rows held by several processes, and state it."""
    processes.refuse_copies(lambda: (part.cpu().numpy() for part in rows.parts()))
    processes.watch(vector, epoch)
    return PROCESSES.format(n=processes.size)


def rows_of(read: ReadRows, cells: np.ndarray | None, module: nn.Module, link: str) -> Rows:
    """Rows as the engine takes them; those of no cell, and of no label, contribute nothing.

    `cells` (n,): cell of each row, negative for none; None: all are of one.
    """
    import torch

    from skfairdp.engine.nets import as_tensor
    from skfairdp.engine.release import Rows

    tensor, labels = as_tensor(read.X, module), read.labels
    codes = np.zeros(len(labels), dtype=np.int8) if cells is None else cells
    if link == "number":
        target = torch.from_numpy(labels).to(tensor.device)
    else:
        target = torch.from_numpy(labels.clip(min=0)).to(tensor.device)
        if labels.min() < 0:
            codes = np.where(labels < 0, codes.dtype.type(-1), codes)
        target = target.to(tensor.dtype if link == "logit" else torch.int64)
    # Signed even where all rows are of no cell, whose codes are negative.
    codes = codes.astype(np.min_scalar_type(-1 - max(int(codes.max()), 0)))
    return Rows(tensor, (target,), codes, read.persons, read.stored)
