"""Template of models that serve every tolerance from tables released once."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted

from skfairdp.exceptions import FairnessWarning
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import Number
from skfairdp.inprocessing.gradient import GradientPredictor, Run
from skfairdp.inprocessing.rates.constraints import compared_groups
from skfairdp.inprocessing.rates.training import TailAverage
from skfairdp.privacy.mechanisms.prefix_sums import LARGEST_STD
from skfairdp.privacy.plan import LEAST_MULTIPLIER, Plan, Segment
from skfairdp.privacy.sizes import steps_for
from skfairdp.protocol import CERTIFY
from skfairdp.records.given import remember_those_of
from skfairdp.records.groups import Groups

if TYPE_CHECKING:
    from skfairdp.certificate import Certificate

# Outputs for rows that were asked for, while several tolerances are certified together.
_Known = dict[tuple[Any, ...], list[tuple[np.ndarray, np.ndarray]]]
_KNOWN: ContextVar[_Known | None] = ContextVar("known", default=None)
OPEN = Number(0.0, 1.0, low_open=True, high_open=True)


class EveryTolerance(GradientPredictor):
    """Template of a model that uses one of many points, all known from released tables.

    A mechanism trains a net and releases tables. It says what they tell about all points
    (`_path_of`), and which point is used for its `tolerance` (`_stand_at`).
    """

    notion: str
    tolerance: float
    path_share: float | str
    averaged_share: float
    groups: Sequence[Any] | None

    _auto_batch: ClassVar[tuple[int, int]] = (2048, 8)
    _with_gradients: ClassVar[slice] = slice(1)  # after training there are tables alone

    def _path_of(self, plan: Plan) -> Any:
        """Put released tables and the noise that their plan says together."""
        raise NotImplementedError

    def _stand_at(self, path: Any) -> None:
        """Choose the point of `tolerance`, and warn where the tables do not show that it is kept.

        `path`: as `_path_of` returns it.
        """
        raise NotImplementedError

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups:
        numbers = is_regressor(self)
        return compared_groups(sensitive_features, n, self.groups, of_numbers=numbers)

    def _multiplier_of_tables(self, noise_multiplier: float, n: int, share: float) -> float:
        """Noise multiplier of all tables together, which get a share of the budget.

        All steps are about one Gaussian release of the multiplier that this divides.
        """
        size = self._batch_size(n)
        overall = noise_multiplier * n / (size * math.sqrt(steps_for(self.max_epochs, n, size)))
        overall *= math.sqrt((1.0 - share) / share)
        return overall

    def _refuse_noise_of_tables(self, segments: Sequence[Segment]) -> None:
        """Refuse noise of released tables that is beyond what exact noise is proved for."""
        least = min(segment.multiplier(0) for segment in segments)
        if 0.0 < least < LEAST_MULTIPLIER:
            raise ValueError(
                f"The tables' exact noise is proved for multipliers from {LEAST_MULTIPLIER}; got "
                f"{least:.3g}. Use a smaller 'path_share' or 'epsilon'."
            )
        most = max(block.noise_std for table in segments for block in table.blocks)
        if most > LARGEST_STD:
            raise ValueError(
                f"'path_share' = {self.path_share!r} leaves so little of 'epsilon' for the tables "
                f"that their noise has a standard deviation of {most:.3g} rows; at most "
                f"{LARGEST_STD:.3g} is allowed. Use a larger 'path_share', such as 'auto'."
            )

    def _tail_average(self, run: Run) -> TailAverage:
        """Average of the weights over the last steps of training."""
        steps = run.plan.segments[0].steps
        first = steps - int(self.averaged_share * steps)
        return TailAverage(run.prepared.flat.vector, first)

    def at(self, tolerance: float) -> Self:
        """Choose the point for another tolerance.

        Parameters
        ----------
        tolerance : float
            Largest gap among the training rows, in (0, 1). `kept_tolerance_` says which one is
            kept, in nine fits of ten; by a classifier, if the tolerance was fixed before a look at
            its `path`, which lists bounds for one that was chosen by it.

        Returns
        -------
        estimator
            Fitted, with the same net, tables and guarantee: all of them are one release, and
            cost what one costs. Its digest is its own.
        """
        self._check_movable((tolerance,))
        return self._standing_at(tolerance, self._path_of(self.plan_))

    def _check_movable(self, tolerances: Iterable[float]) -> None:
        check_is_fitted(self)
        for tolerance in tolerances:
            if not OPEN.accepts(tolerance):
                raise ValueError(f"'tolerance' must be {OPEN.describe()}; got {tolerance!r}.")
        if changed := self._changed_since_fit():
            raise ValueError(
                f"The model was changed after fit ({', '.join(changed)}), so its tables may not be "
                "about this model: fit again, or undo the change."
            )

    def _standing_at(self, tolerance: float, path: Any) -> Self:
        other = copy.copy(self)
        other.tolerance = tolerance
        other._stand_at(path)
        remember_those_of(other, self)
        other._bind()
        return other

    @completed_by(CERTIFY)
    def certify_path(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike,
        tolerances: Sequence[float] = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15),
        confidence_level: float = 0.95,
        bound: str = "exact",
        holdout: str | None = None,
    ) -> dict[float, Certificate]:
        """Certify several tolerances at once.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows held out from training and selection.
        sensitive_features : array-like
            Their groups.
        tolerances : sequence of float
            Fixed before these rows are looked at.
        confidence_level : float, default=0.95
            Probability that all bounds hold together, in (0, 1).

        Returns
        -------
        dict of float to Certificate
            Of the model that `at` returns for each tolerance. Whichever is picked afterwards,
            its bound holds.
        """
        # Here, so that no fit loads it
        from skfairdp.certificate import certify
        from skfairdp.certificate.evaluation_settings import refuse_unsaid

        buy = "certify the model of one tolerance, at(tolerance), with count_epsilon"
        refuse_unsaid(holdout, None, buy=buy)
        asked = [*tolerances] if isinstance(tolerances, Sequence | np.ndarray) else []
        if not asked:
            raise ValueError(f"'tolerances' must be a list of gaps; got {tolerances!r}.")
        self._check_movable(asked)
        path = self._path_of(self.plan_)
        with warnings.catch_warnings():
            # What a tolerance did not reach, its certificate says.
            warnings.simplefilter("ignore", FairnessWarning)
            models = {float(each): self._standing_at(float(each), path) for each in asked}
        known = _KNOWN.set({})  # one net serves all points: it is asked about the same rows once
        try:
            return {
                tolerance: certify(
                    model,
                    X,
                    y,
                    sensitive_features=sensitive_features,
                    notion=self.notion,
                    confidence_level=confidence_level,
                    bound=bound,
                    n_certificates=len(models),
                    certificate_index=place,
                    holdout=holdout,
                )
                for place, (tolerance, model) in enumerate(models.items(), start=1)
            }
        finally:
            _KNOWN.reset(known)

    def _asked_once(self, X: ArrayLike, ask: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Ask the net about rows, unless it was while several tolerances are certified."""
        known = _KNOWN.get()
        if known is None:
            return ask(self._features(X))
        as_asked = isinstance(X, np.ndarray) and X.ndim == 2
        rows = np.asarray(X) if as_asked else self._features(X)
        # Compared whole: a digest of many rows takes longer than their scores.
        key = id(self.module_), rows.shape, rows.dtype.str, rows[:1].tobytes()
        alike = known.setdefault(key, [])
        for before, outputs in alike:
            if before is rows or np.array_equal(before, rows):
                return outputs.copy()
        alike.append((rows, ask(self._features(rows) if as_asked else rows)))
        return alike[-1][1].copy()
