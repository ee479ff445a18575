"""The loop of learning under rate constraints, whatever is private in it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from skfairdp.fairness.notions import Notion
from skfairdp.inprocessing.gradient import GradientClassifier, Run
from skfairdp.inprocessing.rates.constraints import Floats, RateConstraints
from skfairdp.inprocessing.rates.multipliers import Lagrangian
from skfairdp.inprocessing.rates.objective import ConstrainedObjective
from skfairdp.parameters import MAPPING, POSITIVE, PROBABILITY, SEQUENCE, Kind, Number
from skfairdp.privacy.plan import Segment

NOTION = Kind((str, Notion), "a notion or its name")


class TailAverage:
    """Mean of the weights, which are moved in place, from `first_step` on."""

    def __init__(self, vector: Tensor, first_step: int) -> None:
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
    _released = (*GradientClassifier._released, "multipliers_")

    multipliers_: Floats = field(init=False)

    def _release(
        self, run: Run, segment: Segment, lagrangian: Lagrangian
    ) -> tuple[Tensor, Tensor | None]:
        """Release the gradient of a step, and its histogram unless there is none."""
        assert isinstance(run.objective, ConstrainedObjective)
        return run.release.gradient_and_statistic(segment, run.objective.statistic)

    @abstractmethod
    def _lagrangian(self, run: Run, constraints: RateConstraints) -> Lagrangian:
        """Set up the multipliers."""

    def _train(self, run: Run) -> None:
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
        """Keep released attributes."""
        self.multipliers_ = lagrangian.multipliers
