"""A private glass box for numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.additive.design import NORM
from skfairdp.additive.model import AdditiveModel
from skfairdp.additive.pairs import CHANCES, Link
from skfairdp.foundation.parameters import Choice
from skfairdp.inprocessing.regressor import GradientRegressor
from skfairdp.records.numbers import LOSSES, TargetBounds

if TYPE_CHECKING:
    from skfairdp.additive.descent import Slopes
    from skfairdp.engine.release import Rows
    from skfairdp.inprocessing.gradient import Run


class DPAdditiveRegressor(AdditiveModel, GradientRegressor):
    """Sum of one step function for each column, for numbers, trained by private gradient descent.

    A prediction is an intercept and a number for each column, which depends on the bin or the
    category that the row has there, in units of the target. So every prediction can be read off
    the tables of ``shape_functions_``: the model is a glass box, and all that is read is
    post-processing of released weights. Bins come from declared bounds, or from the step before
    it in a Pipeline.

    Parameters
    ----------
    loss : {"squared", "huber"}, default="squared"
        Loss of the scaled target, whose bounds are -1 and 1. "huber" is linear from a residual of
        0.25 on, so that a few far targets move the model less.

    Attributes
    ----------
    intercept_ : float
        Prediction where every column contributes nothing.
    shape_functions_ : dict from str to DataFrame
        For each column its levels and what each adds to the prediction, in units of the target.
        Contributions of a column are centred: their mean over its levels, a missing value
        included, is 0. (A mean over rows would have to be bought.) For each chosen pair, by the
        name "a × b", a map: cells of the one column in the index, of the other in the columns.

    See Also
    --------
    DPAdditiveClassifier : The same for two classes.
    skfairdp.PrivateTableEncoder : Learns bins and categories under ε.

    Notes
    -----
    The tables are those of :class:`DPAdditiveClassifier`: every row has the norm 4, so that the
    gradient of a residual r is at most 2 √17 times its size, and it is clipped to `max_grad_norm`.
    Predictions are clipped to ``target_bounds_``; what `explain` returns adds up to the number
    before that.

    References
    ----------
    H. Nori, R. Caruana, Z. Bu, J. H. Shen and J. Kulkarni, "Accuracy, Interpretability, and
    Differential Privacy via Explainable Boosting", ICML 2021, for what it is compared with:
    there bins are bought and trees are boosted; here a convex problem is solved.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp import DPAdditiveRegressor
    >>> X = np.random.default_rng(0).uniform(size=(3000, 2))
    >>> model = DPAdditiveRegressor((0, 1), target_bounds=(0, 10), n_bins=8)
    >>> _ = model.fit(X, 10 * X[:, 0] ** 2)
    >>> model.explain(X[:2]).columns.tolist()
    ['intercept', 'x0', 'x1']
    >>> bool(model.privacy_.epsilon <= 1.0)
    True
    """

    loss: str = "squared"

    _parameters = {"loss": (Choice(LOSSES),)}
    _predicts = "prediction"
    _prior = 0.1

    @property  # type: ignore[misc]
    def net(self) -> Any:
        """The linear net, as skorch has it."""
        from skfairdp.engine.nets import NUMBER_LOSSES

        return super().net.set_params(**NUMBER_LOSSES[self.loss])

    def _slopes(self) -> Slopes:
        from skfairdp.additive.descent import Slopes

        # How far targets are from predictions is not known: half of the largest is taken.
        bend, steepest = {"squared": (2.0, 4.0), "huber": (1.0, 0.25)}[self.loss]
        limit = min(float(self.max_grad_norm) / math.sqrt(NORM**2 + 1.0), steepest)
        return Slopes(lambda mean, variance: (0.5 * bend, 0.5 * limit**2), bend)

    def _labels_of_pairs(self, run: Run) -> tuple[Callable[[Rows], NDArray[np.bool_]], Link]:
        from skfairdp.engine.objectives import NumberObjective

        assert isinstance(run.objective, NumberObjective)
        bounds = run.objective.bounds  # declared, or released before

        def drawn(rows: Rows) -> NDArray[np.bool_]:
            # The second label with a chance that is linear in the target.
            scaled = bounds.scaled(rows.targets[0]).cpu().numpy().reshape(-1)
            return np.asarray(run.noise.sampling.random(len(scaled)) < 0.5 * (1.0 + scaled))

        return drawn, CHANCES

    def _unit_of_outputs(self) -> tuple[float, float]:
        bounds = TargetBounds(*self.target_bounds_)
        return bounds.half, bounds.middle

    def predict(self, X: ArrayLike) -> np.ndarray:
        return self._sums_of_parts(X).clip(*self.target_bounds_)
