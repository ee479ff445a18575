"""The loop of learning under rate constraints, whatever is private in it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skfairdp.engine.objectives import Objective
from skfairdp.engine.training import run_segment
from skfairdp.fairness.groups import Groups
from skfairdp.inprocessing.gradient import GradientClassifier, Run
from skfairdp.inprocessing.rate_constraints import RateConstraints
from skfairdp.inprocessing.rate_objective import RateObjective
from skfairdp.privacy.plan import Segment

__all__ = ["ConstrainedClassifier", "DualAscent", "Lagrangian", "TailAverage"]


class DualAscent:
    """Multipliers of two-sided constraints, by ascent on an augmented Lagrangian.

    Every constraint ``|gap| <= tolerance`` has a multiplier for each side, which grows
    with the violation and falls with the slack, within [0, limit]. The multiplier in
    force adds `penalty` times the present violation: the derivative of the augmented
    Lagrangian, which damps the swings of the plain one.

    Parameters
    ----------
    tolerances : ndarray of float, shape (n_constraints,)
    rate : float
        Step of the ascent.
    penalty : float
        Weight of the quadratic term, >= 0; 0 is plain dual ascent.
    limit : float
        Largest multiplier.
    """

    def __init__(
        self, tolerances: NDArray[np.float64], *, rate: float, penalty: float, limit: float
    ) -> None:
        self._tolerances = tolerances
        self._rate = rate
        self._penalty = penalty
        self._limit = limit
        self._sides = np.zeros((2, len(tolerances)))
        self._step = 0
        self._square = np.zeros(len(tolerances))
        self.settle = np.inf

    def update(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take one step and return the signed multipliers in force.

        Parameters
        ----------
        gaps : ndarray, shape (n_constraints,)
            Signed, released.

        Returns
        -------
        ndarray of float64, shape (n_constraints,)
        """
        self._step += 1
        self._square += (gaps**2 - self._square) / self._step
        excess = np.stack([gaps, -gaps]) - self._tolerances
        scale = np.maximum(np.sqrt(self._square), self._tolerances)
        if self.settle == -1:
            rate = self._rate * self.factors[self._step - 1] / len(self.factors) / np.maximum(scale, 1e-3)
        else:
            rate = min(self._rate, self.settle / self._step)
        self._sides = (self._sides + rate * excess).clip(0.0, self._limit)
        upper, lower = (self._sides + self._penalty * excess).clip(0.0, self._limit)
        return upper - lower


class Lagrangian:
    """What is known of the constraints while a model is trained, all of it released.

    Parameters
    ----------
    constraints : RateConstraints
    dual : DualAscent
    memory : float
        Weight in [0, 1) of the past in the moving mean of the released histograms.
    noise_std : float
        Standard deviation of the noise on an entry of one released histogram.

    Attributes
    ----------
    histogram : ndarray of float64, shape (n_groups, n_labels, n_classes)
        The moving mean.
    multipliers : ndarray of float64, shape (n_constraints,)
    coefficients : ndarray of float64, shape (n_groups, n_labels, n_classes)
        What a record of each cell adds to its loss, see `RateConstraints.coefficients`.
    """

    def __init__(
        self, constraints: RateConstraints, dual: DualAscent, *, memory: float, noise_std: float
    ) -> None:
        self.constraints = constraints
        self.multipliers = np.zeros(len(constraints))
        self.coefficients = np.zeros(constraints.shape)
        self._dual = dual
        self._memory = memory
        self._noise_std = noise_std
        self._count = 0
        self.masses: NDArray[np.float64] = np.zeros(())
        self.rates: NDArray[np.float64] = np.zeros(())

    def observe(self, histogram: NDArray[np.float64]) -> None:
        """Take in a released histogram, in shares of a batch."""
        table = histogram.reshape(self.constraints.shape)
        masses, successes = self.constraints.masses(table), self.constraints.successes(table)
        if self._count == 0:
            self.masses, self.rates = np.zeros_like(masses), np.full(masses.shape, 0.5)
        self._count += 1
        self.masses += (masses - self.masses) / self._count
        floor = 3.0 * self._noise_std * np.sqrt(table[0].size / self._count)
        step = max(1.0 - self._memory, 1.0 / self._count)
        surprise = successes - self.rates * masses
        self.rates = (self.rates + step * surprise / np.maximum(self.masses, floor)).clip(0.0,1.0)
        if hasattr(self, "trace"):
            self.trace.append((self.rates.copy(), self.constraints.gaps_between(self.rates, self.masses, floor=floor), self.multipliers))
        self.multipliers = self._dual.update(
            self.constraints.gaps_between(self.rates, self.masses, floor=floor)
        )
        self.coefficients = self.constraints.coefficients_of(
            self.masses, self.multipliers, floor=floor
        )


class TailAverage:
    """Mean of the weights over the last steps.

    Parameters
    ----------
    vector : Tensor, shape (p,)
        The weights, as they are moved in place.
    first_step : int
        Number of steps done from which on weights enter.
    """

    def __init__(self, vector: Tensor, first_step: int) -> None:
        self._vector = vector
        self._first = first_step
        self._count = 0
        self._mean = torch.zeros_like(vector, dtype=torch.float64)

    def after_step(self, step: int) -> bool:
        """Take in the weights after a step; never ends training."""
        if step >= self._first:
            self._count += 1
            self._mean += (self._vector.detach() - self._mean) / self._count
        return False

    def restore(self) -> None:
        """Put the mean in place of the last weights."""
        if self._count:
            with torch.no_grad():
                self._vector.copy_(self._mean)


class ConstrainedClassifier(GradientClassifier):
    """Template of a learner under rate constraints: one loop, several kinds of privacy.

    A mechanism lays out its plan (`_plan`), says what a step releases (`_release`) and
    how the multipliers move (`_dual`). The loop feeds every released histogram to the
    Lagrangian and its coefficients back to the objective.
    """

    notion: str | Sequence[str]
    tolerance: float | Mapping[str, float]

    @abstractmethod
    def _release(
        self, run: Run, segment: Segment, lagrangian: Lagrangian
    ) -> tuple[Tensor, Tensor | None]:
        """Release the gradient of a step, and its histogram unless there is none."""

    @abstractmethod
    def _lagrangian(self, run: Run, constraints: RateConstraints) -> Lagrangian:
        """Set up the multipliers."""

    def _average_from(self, steps: int) -> int:
        """Step from which on weights are averaged."""
        return steps - int(0.3 * steps)

    def _rate_objective(self, base: Objective, constraints: RateConstraints) -> RateObjective:
        return RateObjective(base, base, constraints, 3.0)

    def _objective(self, base: Objective, groups: Groups | None, classes: np.ndarray) -> Objective:
        assert groups is not None
        constraints = RateConstraints(
            self.notion, list(classes), len(groups.labels), self.tolerance
        )
        return self._rate_objective(base, constraints)

    def _targets(self, labels: torch.Tensor, groups: np.ndarray | None) -> tuple[torch.Tensor, ...]:
        raise NotImplementedError

    def _train(self, run: Run) -> None:
        objective = run.objective
        lagrangian = self._lagrangian(run, objective.constraints)
        weights = run.prepared.flat.vector
        average = TailAverage(weights, self._average_from(run.plan.steps))

        def released_gradient(segment: Segment) -> Tensor:
            gradient, histogram = self._release(run, segment, lagrangian)
            if histogram is not None:
                lagrangian.observe(histogram.cpu().numpy())
                objective.set_coefficients(lagrangian.coefficients, weights)
            return gradient

        optimizer = run.prepared.optimizer()
        for segment in run.plan.segments:
            run_segment(
                segment,
                run.release,
                optimizer,
                progress=run.progress,
                learning_rate=run.learning_rates.__getitem__,
                after_step=average.after_step,
                released_gradient=released_gradient,
            )
        average.restore()
        self._finish(lagrangian)

    def _finish(self, lagrangian: Lagrangian) -> None:
        """Keep released attributes."""
