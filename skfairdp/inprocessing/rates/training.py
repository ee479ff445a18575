"""Training under rate constraints: updates of the multipliers, and the loop."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from skfairdp.fairness.notions import Notion
from skfairdp.foundation.parameters import MAPPING, POSITIVE, PROBABILITY, SEQUENCE, Kind, Number
from skfairdp.inprocessing.gradient import GradientClassifier, Run
from skfairdp.inprocessing.rates.constraints import TINY, Floats, RateConstraints
from skfairdp.privacy.plan import Segment

if TYPE_CHECKING:
    from torch import Tensor

    from skfairdp.engine.public_features import PublicFeatures


_SMALLEST_SCALE = 1e-3  # gaps below a tenth of a percent do not speed the multipliers up
NOTION = Kind((str, Notion), "a notion or its name")


@dataclass(eq=False)
class DualAscent:
    """Multipliers of two-sided constraints, by ascent on an augmented Lagrangian.

    Every constraint ``|gap| <= tolerance`` has a multiplier for each side, which grows
    with the violation and falls with the slack, within [0, limit]. The multiplier in
    force adds `penalty` times the present violation, which damps the swings.
    """

    tolerances: Floats
    rate: float
    penalty: float
    limit: float

    def __post_init__(self) -> None:
        self._sides = np.zeros((2, len(self.tolerances)))

    def update(self, gaps: Floats, noise_std: Floats) -> Floats:
        """Take one step and return the signed multipliers in force.

        `gaps`: signed, released. `noise_std`: of the privacy noise in each of them.
        """
        return self._step(gaps, self.tolerances, self.rate)

    def _step(self, gaps: Floats, tolerances: Floats, rate: float) -> Floats:
        excess = np.array((gaps, -gaps))
        excess -= tolerances
        self._sides = self._limited(self._sides + rate * excess)
        upper, lower = self._limited(self._sides + self.penalty * excess)
        return np.asarray(upper - lower)

    def _limited(self, values: Floats) -> Floats:
        return np.minimum(np.maximum(values, 0.0), self.limit)


@dataclass(eq=False)
class ScaledAscent(DualAscent):
    """Dual ascent with steps that do not depend on the size of gaps and noise.

    A violation is divided by the largest of: the root mean square of the gap so far, its
    tolerance, and three standard deviations of its privacy noise. Steps shrink with the learning
    rate. See "Multipliers" in ``docs/theory/rate_constrained.md``.

    `rate`: most that a multiplier moves in a step, in units of the loss, and `penalty`: what it
    adds to the one in force, for a violation as large as its scale. `factors`: on `rate`, by step.
    """

    factors: Sequence[float] | Floats

    def __post_init__(self) -> None:
        super().__post_init__()
        self._least = np.maximum(self.tolerances, _SMALLEST_SCALE)
        self._count = 0
        self._mean_square = np.zeros(len(self.tolerances))

    def update(self, gaps: Floats, noise_std: Floats) -> Floats:
        rate = self.rate * self.factors[self._count]
        self._count += 1
        self._mean_square += (gaps**2 - self._mean_square) / self._count
        scale = np.maximum(np.sqrt(self._mean_square), np.maximum(3.0 * noise_std, self._least))
        return self._step(gaps / scale, self.tolerances / scale, rate)


@dataclass(eq=False)
class Lagrangian:
    """Released estimates of the constraints during training.

    Masses are means over all steps; rates follow, with a memory, what the predictions of a step
    say beyond the rate that was believed, ``(successes - rate * mass) / mean mass``. A cell may be
    empty, and whether it is is private: where a mass is below three standard deviations of its
    noise, its rate is taken to be unknown, the gap to be 0, and the mass to be at that floor. See
    "Multipliers" in ``docs/theory/rate_constrained.md``.

    `memory`: weight in [0, 1) of the past in the rates. `noise_std`: on an entry of one released
    histogram. `coefficients`: see `RateConstraints.coefficients_of`.
    """

    constraints: RateConstraints
    dual: DualAscent
    memory: float
    noise_std: float

    def __post_init__(self) -> None:
        constraints = self.constraints
        self.masses = constraints.masses(np.zeros(constraints.shape))
        self.rates = np.zeros_like(self.masses)
        self.gaps = self.multipliers = np.zeros(len(constraints))
        self.coefficients = np.zeros(constraints.shape)
        self._entries = constraints.shape[1] * constraints.shape[2]  # of one group
        self._count = 0

    def observe(self, histogram: Floats) -> None:
        """Take in a released histogram, in shares of a batch."""
        constraints = self.constraints
        masses = constraints.masses(histogram)
        self._count += 1
        self.masses += (masses - self.masses) / self._count
        floor = 3.0 * self.noise_std * math.sqrt(self._entries / self._count)
        known = np.maximum(self.masses, max(floor, TINY))
        step = max(1.0 - self.memory, 1.0 / self._count)
        surprise = (constraints.successes(histogram) - self.rates * masses) / known
        self.rates = np.minimum(np.maximum(self.rates + step * surprise, 0.0), 1.0)
        self.gaps = constraints.gaps_of(self.rates, self.masses, floor=floor)
        of_rates = self.noise_std * math.sqrt(step / (2.0 - step)) / known
        self.multipliers = self.dual.update(self.gaps, constraints.spread_of(of_rates))
        self.coefficients = constraints.coefficients_of(self.masses, self.multipliers, floor=floor)


@dataclass(eq=False)
class BlockLagrangian(Lagrangian):
    """Lagrangian with one block per group, as attribute privacy requires.

    Every group's gradient sum gets its own noise, so multipliers, signs and masses may
    only act on the noisy sums. Within a group they differ between labels; that part is
    normalised and stays with the records, whose vectors are clipped after it.

    `memory`: weight in [0, 1) of the past in the moving mean of the released histograms.
    `noise_std`: standard deviation of the noise on an entry of one released histogram.
    `loss_rows`: where the gradient of the loss comes from, which needs no noise. `loss_batch`:
    rows of a batch of these. `cell_weights` (n_groups,): weight of each group's noisy gradient
    sum. `coefficients` (n_groups, n_labels, n_classes): what a record of each cell contributes to
    its group's block: those of one record differ by at most 1.
    """

    loss_rows: PublicFeatures
    loss_batch: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cell_weights = np.zeros(self.constraints.shape[0])

    def observe(self, histogram: Floats) -> None:
        """Take in a released histogram, in shares of a batch."""
        super().observe(histogram)
        spread = self.coefficients.max(axis=2) - self.coefficients.min(axis=2)
        self.cell_weights = spread.max(axis=1)
        used = self.cell_weights > 0.0
        scale = np.where(used, self.cell_weights, 1.0)[:, None, None]
        self.coefficients = self.coefficients / scale


class TailAverage:
    """Mean of the weights, which are moved in place, from `first_step` on."""

    def __init__(self, vector: Tensor, first_step: int) -> None:
        import torch

        self._vector = vector
        self._first = first_step
        self._count = 0
        self._sum = torch.zeros_like(vector, dtype=torch.float64)

    def after_step(self, step: int) -> bool:
        """Take in the weights after a step; never ends training."""
        if step >= self._first:
            self._count += 1
            self._sum += self._vector.detach()
        return False

    def restore(self) -> None:
        """Put the mean in place of the last weights."""
        import torch

        if self._count:
            with torch.no_grad():
                self._vector.copy_(self._sum / self._count)


class ConstrainedClassifier(GradientClassifier):
    """Template of a learner under rate constraints: one loop, several kinds of privacy.

    A mechanism lays out its plan (`_plan`), says what a step releases (`_release`) and
    how the multipliers move (`_lagrangian`). The loop feeds every released histogram to the
    Lagrangian and its coefficients back to the objective.

    Parameters
    ----------
    averaged_share : float
        Share of the steps, at the end, over which weights are averaged.

    Attributes
    ----------
    multipliers_ : ndarray of float64, shape (n_constraints,)
        Signed multipliers at the end.
    """

    notion: str | Notion | Sequence[str | Notion] = "demographic_parity"
    tolerance: float | Mapping[str, float] = 0.02
    max_epochs: int = 30
    averaged_share: float = 0.3
    groups: Sequence[Any] | None = None

    _parameters = {
        "notion": (NOTION, SEQUENCE),
        "tolerance": (Number(0.0, 1.0, high_open=True), MAPPING),
        "histogram_share": (PROBABILITY,),
        "dual_rate": (POSITIVE,),
        "penalty": (Number(0.0),),
        "max_multiplier": (POSITIVE,),
        "memory": (Number(0.0, 1.0, high_open=True),),
        "averaged_share": (Number(0.0, 1.0),),
    }

    multipliers_: Floats = field(init=False)

    def _release(
        self, run: Run, segment: Segment, lagrangian: Lagrangian
    ) -> tuple[Tensor, Tensor | None]:
        """Release the gradient of a step, and its histogram unless there is none."""
        from skfairdp.inprocessing.rates.objective import ConstrainedObjective

        assert isinstance(run.objective, ConstrainedObjective)
        return run.release.gradient_and_statistic(segment, run.objective.statistic)

    @abstractmethod
    def _lagrangian(self, run: Run, constraints: RateConstraints) -> Lagrangian:
        """Set up the multipliers."""

    def _train(self, run: Run) -> None:
        from skfairdp.inprocessing.rates.objective import ConstrainedObjective

        objective = run.objective
        assert isinstance(objective, ConstrainedObjective)
        lagrangian = self._lagrangian(run, objective.constraints)
        weights = run.prepared.flat.vector
        steps = run.plan.steps
        average = TailAverage(weights, steps - int(self.averaged_share * steps))

        def released_gradient(segment: Segment) -> Tensor:
            gradient, histogram = self._release(run, segment, lagrangian)
            if histogram is not None:
                lagrangian.observe(histogram.cpu().numpy())
                objective.set_coefficients(lagrangian.coefficients, weights)
            return gradient

        run.descend(after_step=average.after_step, released_gradient=released_gradient)
        average.restore()
        self._finish(lagrangian)

    def _finish(self, lagrangian: Lagrangian) -> None:
        self.multipliers_ = lagrangian.multipliers
