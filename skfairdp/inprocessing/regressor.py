"""Base class of regressors trained by noisy clipped gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from skfairdp.base import PrivateRegressor
from skfairdp.exceptions import PlanError
from skfairdp.foundation.assumptions import TARGET_BOUNDS_DECLARED
from skfairdp.foundation.parameters import PRICE
from skfairdp.inprocessing.budgeted import refuse_price
from skfairdp.inprocessing.gradient import NONE, GradientPredictor, Run
from skfairdp.inprocessing.target_bounds import (
    ONE_COUNT,
    bought_bounds,
    count_outside,
    tables_of_bounds,
)
from skfairdp.privacy.plan import CountRelease, Plan
from skfairdp.privacy.sizes import Sizes
from skfairdp.records.groups import Groups
from skfairdp.records.numbers import INTERVAL, TargetBounds
from skfairdp.records.stored_rows import in_chunks

if TYPE_CHECKING:
    from skfairdp.engine.objectives import Objective


class GradientRegressor(GradientPredictor, PrivateRegressor):
    """Template of a regressor trained by noisy clipped gradients.

    Parameters
    ----------
    target_bounds : (float, float) or None
        Declared bounds (low, high) of the target, in its own units. Targets beyond them are
        clipped without a message, and predictions lie between them. Bounds must not be read off
        the rows. None buys them with a part of `epsilon`.
    target_bounds_epsilon : float or None
        Part of `epsilon`, in nats, that buys the bounds where `target_bounds` is None; None is a
        tenth of `epsilon`.
    outside_epsilon : float or None
        Part of `epsilon`, in nats, that buys the number of targets outside the bounds. None
        counts none.

    Attributes
    ----------
    target_bounds_ : tuple of float, length 2
        Bounds that targets were scaled by, declared or bought, in units of the target.
    outside_ : int or None
        Number of targets outside `target_bounds_`, with discrete Laplace noise of
        `outside_epsilon`; of persons with several rows, one row each. None where none was bought.
    """

    target_bounds: Sequence[float] | None = None
    target_bounds_epsilon: float | None = None
    outside_epsilon: float | None = None

    _parameters = {
        "target_bounds": (INTERVAL, NONE),
        "target_bounds_epsilon": (PRICE, NONE),
        "outside_epsilon": (PRICE, NONE),
    }

    target_bounds_: tuple[float, float] = field(init=False)
    outside_: int | None = field(init=False)

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.target_bounds is not None:
            if self.target_bounds_epsilon is not None:
                raise ValueError(
                    "Set 'target_bounds' (declared) or 'target_bounds_epsilon' (bought), not both."
                )
        elif self.epsilon is None and self.target_bounds_epsilon is None:
            raise ValueError(
                "'target_bounds' is None and epsilon=None: declare target_bounds=(low, high), or "
                "say what bounds may cost, such as target_bounds_epsilon=0.1."
            )
        spent = sum(table.epsilon * table.releases for table in self._bought())
        refuse_price(
            self.epsilon,
            spent,
            f"'target_bounds_epsilon' and 'outside_epsilon', together {spent:g},",
            "set them lower, or declare target_bounds=(low, high)",
        )

    def _bought(self) -> tuple[CountRelease, ...]:
        """Tables that are bought: of the bounds, and of the targets outside of them."""
        tables: tuple[CountRelease, ...] = ()
        if self.target_bounds is None:
            price = self.target_bounds_epsilon
            tables = tables_of_bounds(0.1 * float(self.epsilon or 0.0) if price is None else price)
        if self.outside_epsilon is not None:
            tables += (CountRelease(name=ONE_COUNT, epsilon=float(self.outside_epsilon)),)
        return tables

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        clip = float(self.max_grad_norm)
        of_gradient = ("gradient", clip, noise_multiplier * clip)
        return self._plan_sums(sizes, of_gradient, counts=self._bought())

    def _encoded(self, X: Any, y: Any) -> tuple[Any, np.ndarray | None, np.ndarray]:
        X, numbers = self._numbers_of_fit(X, y)
        return X, None, numbers

    def _objective(self, base: Objective, groups: Groups | None, classes: Any) -> Objective:
        from skfairdp.engine.objectives import NumberObjective

        assert isinstance(base, NumberObjective)
        if self.target_bounds is not None:
            low, high = map(float, self.target_bounds)
            base.bounds = TargetBounds(low, high)
        return base

    def _train(self, run: Run) -> None:
        from skfairdp.engine.objectives import NumberObjective

        objective, tables = run.objective, list(run.plan.counts)
        if not isinstance(objective, NumberObjective):
            raise PlanError(
                "The _objective of a regressor must be a NumberObjective, whose bounds are "
                f"public; got {type(objective).__name__}."
            )
        if self.target_bounds is None:
            objective.bounds = bought_bounds(run.release, tables.pop(0))
        self.outside_ = None
        if self.outside_epsilon is not None:
            self.outside_ = count_outside(run.release, tables.pop(0), objective.bounds)
        self._descend(run)

    def _keep(self, classes: np.ndarray | None, run: Run) -> None:
        from skfairdp.engine.objectives import NumberObjective

        assert isinstance(run.objective, NumberObjective)
        bounds = run.objective.bounds
        self.target_bounds_ = bounds.low, bounds.high

    def _also_assumed(self) -> tuple[str, ...]:
        return () if self.target_bounds is None else (TARGET_BOUNDS_DECLARED,)

    @in_chunks
    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the target of each row.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            In units of the target, between `target_bounds_`.
        """
        scaled = self._scaled(X)  # which refuses a model that is not fitted
        return TargetBounds(*self.target_bounds_).unscaled(scaled)

    def _scaled(self, X: ArrayLike) -> np.ndarray:
        """Output of the net for each row, where -1 and 1 are the bounds of the target."""
        from skfairdp.engine.inference import outputs

        X = self._features(X)
        return outputs(self.module_, X)[:, 0]
