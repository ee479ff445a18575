"""Methods of a fitted path: any tolerance, at no further cost."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import field
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skfairdp.certificate import Certificate, certify
from skfairdp.datasets.stored_rows import in_chunks
from skfairdp.documentation import completed_by
from skfairdp.exceptions import FairnessWarning, warn_user
from skfairdp.expected_checks import ADJUSTED_DECISIONS, expecting
from skfairdp.figures import significant_up
from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.fair_path.display import FairPathDisplay
from skfairdp.inprocessing.fair_path.envelope import Envelopes
from skfairdp.inprocessing.fair_path.path import AROUND_ONE, ReleasedPath, around
from skfairdp.inprocessing.fair_path.tables import planned
from skfairdp.inprocessing.gradient import GradientClassifier
from skfairdp.inprocessing.rates.constraints import Floats
from skfairdp.parameters import Number
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums
from skfairdp.privacy.plan import Plan
from skfairdp.trained_rows import remember_those_of

# Scores of rows that were asked for, while points of one path are certified together.
_Known = dict[tuple[Any, ...], list[tuple[np.ndarray, np.ndarray]]]
_KNOWN: ContextVar[_Known | None] = ContextVar("known", default=None)
OPEN = Number(0.0, 1.0, low_open=True, high_open=True)


class PathClassifier(GradientClassifier):
    """Template of a classifier that stands on a released path.

    A mechanism trains the net, and sets `decided_`, `direction_`, `start_`, `changed_` and
    `improved_`.
    """

    notion: str
    tolerance: float
    decided_: Floats = field(init=False)
    direction_: Floats = field(init=False)
    changed_: Floats = field(init=False)
    improved_: Floats = field(init=False)
    start_: float = field(init=False)
    multiplier_: float = field(init=False)
    kept_tolerance_: float = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        return expecting(tags, tags.expected_failed_checks, ADJUSTED_DECISIONS)

    @property
    def _rates(self) -> Rates:
        return Rates.of(self.notion, (0, 1) if self._is_binary else self.classes_.tolist())

    @property
    def _is_binary(self) -> bool:
        return len(self.classes_) == 2

    def _path_of(self, plan: Plan) -> ReleasedPath:
        """Put released tables and the noise that their plan says together."""
        rates = self._rates
        stds = {name: segment.blocks[0].noise_std for name, segment in planned(plan).items()}
        of_path, of_accuracy = (
            PrefixSums(self.changed_.shape[-1], stds.get(n, 0.0)).stds for n in ("path", "accuracy")
        )
        # Where nothing is paid for accuracy, all groups together are known.
        shared = 0.0 if "accuracy" in stds else 1.0 / len(self.decided_)
        of_decided = stds.get("adjusted decisions", stds["decisions"])
        multipliers = around(self.start_) if "accuracy" in stds else AROUND_ONE
        return ReleasedPath(
            rates,
            multipliers,
            self.decided_,
            self.changed_,
            self.improved_,
            of_decided,
            of_path * rates.balanced_std,
            of_accuracy,
            shared,
            start=int(np.searchsorted(multipliers, self.start_)),
        )

    def _stand_at(self, path: ReleasedPath) -> None:
        point, kept = path.choose(self.tolerance)
        self.multiplier_, self.kept_tolerance_ = float(path.multipliers[point]), kept
        if kept > self.tolerance:
            figure = significant_up(kept, 3)
            reached = f"a tolerance of {figure}" if kept < 1.0 else "no tolerance below 1"
            warn_user(
                f"The path does not keep to 'tolerance' = {self.tolerance:g}: where it starts, the "
                f"gap is estimated as {min(path.gaps[point], 1.0):.3g}, with a standard error of "
                f"{path.gap_stds[point]:.2g}. This point is used. It keeps to {reached}; more "
                "rows, a larger 'epsilon' or 'path_share' help.",
                FairnessWarning,
            )

    def at(self, tolerance: float) -> Self:
        """Choose the point for another tolerance.

        Parameters
        ----------
        tolerance : float
            Largest difference of rates among the training rows, in (0, 1). It is kept in nine fits
            of ten if it was fixed before the path was looked at.

        Returns
        -------
        FairPathClassifier
            Fitted, with the same net, table and guarantee: all of them are one release, and
            cost what one costs. Its digest is its own.
        """
        self._check_movable((tolerance,))
        return self._moved(tolerance, self._path_of(self.plan_))

    def _check_movable(self, tolerances: Iterable[float]) -> None:
        check_is_fitted(self)
        for tolerance in tolerances:
            if not OPEN.accepts(tolerance):
                raise ValueError(f"'tolerance' must be {OPEN.describe()}; got {tolerance!r}.")
        if changed := self._changed_since_fit():
            raise ValueError(
                f"The model is not as fit left it ({', '.join(changed)}), so it is not known what "
                "its table is about: fit again, or undo the change."
            )

    def _moved(self, tolerance: float, path: ReleasedPath) -> Self:
        other = copy.copy(self)
        other.tolerance = tolerance
        other._stand_at(path)
        remember_those_of(other, self)
        other._bind()
        return other

    def path(self) -> pd.DataFrame:
        """List the points of the path, from its start to no constraint.

        Returns
        -------
        DataFrame
            A row a point: the smallest tolerance that `at` answers with it, its multiplier, the
            estimated gap, rate of each group and accuracy, and their standard errors
            (``gap_std``, ``accuracy_std``), which are those of the released table's noise: all
            are about the training rows. In nine fits of ten no gap is above its ``gap_bound``, at
            all points together: a point that is chosen after a look at this table has it as bound.
        """
        check_is_fitted(self)
        assert self.groups_ is not None
        return self._path_of(self.plan_).frame(self.groups_)

    def plot_path(self, **options: Any) -> FairPathDisplay:
        """Draw the path, and where on it the classifier stands.

        Parameters
        ----------
        **options : dict
            Those of `skfairdp.inprocessing.FairPathDisplay.from_estimator`.

        Returns
        -------
        FairPathDisplay
        """
        return FairPathDisplay.from_estimator(self, **options)

    @completed_by(certify)
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
        asked = [*tolerances] if isinstance(tolerances, Sequence | np.ndarray) else []
        if not asked:
            raise ValueError(f"'tolerances' must be a list of gaps; got {tolerances!r}.")
        self._check_movable(asked)
        path = self._path_of(self.plan_)
        with warnings.catch_warnings():
            # What a tolerance did not reach, its certificate says.
            warnings.simplefilter("ignore", FairnessWarning)
            models = {float(each): self._moved(float(each), path) for each in asked}
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

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Compute the adjusted scores.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to score. Their groups are not needed.

        Returns
        -------
        ndarray of float64, shape (n_samples,) or (n_samples, n_classes)
            Of two classes ``2 eta - 1 - multiplier_ * s``, positive for rows that get the second
            one; of more ``eta_k - multiplier_ * s_k`` for each class, the largest for the one
            that rows get: see ``docs/theory/fair_path.md``.
        """
        gains, costs = np.hsplit(self._scores(X), 2)
        scores = gains - self.multiplier_ * costs
        return scores[:, 0] if self._is_binary else scores

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        gains, _ = np.hsplit(self._scores(X), 2)
        if not self._is_binary:
            return gains
        positive = 0.5 * (1.0 + gains[:, 0])
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        if self._is_binary:
            answers = (self.decision_function(X) > 0.0).astype(np.int64)
        else:
            answers = Envelopes(*np.hsplit(self._scores(X), 2)).answers(self.multiplier_)
        return self.classes_[answers]

    @in_chunks
    def _scores(self, X: ArrayLike) -> np.ndarray:
        known = _KNOWN.get()
        if known is None:
            return self._scored(self._features(X))
        as_asked = isinstance(X, np.ndarray) and X.ndim == 2
        rows = np.asarray(X) if as_asked else self._features(X)
        # Compared whole: a digest of many rows takes longer than their scores.
        key = id(self.module_), rows.shape, rows.dtype.str, rows[:1].tobytes()
        alike = known.setdefault(key, [])
        for before, scores in alike:
            if before is rows or np.array_equal(before, rows):
                return scores.copy()
        alike.append((rows, self._scored(self._features(rows) if as_asked else rows)))
        return alike[-1][1].copy()

    def _scored(self, X: np.ndarray) -> np.ndarray:
        from skfairdp.engine.inference import outputs
        from skfairdp.inprocessing.fair_path.scores import Chances, Scores

        chances = Chances(self.module_, self._rates, len(self.direction_))
        return outputs(Scores(chances, self.direction_), X)
