"""Methods of a fitted path: any tolerance, at no further cost."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skfairdp.base.predictors import ADJUSTED_DECISIONS, expecting
from skfairdp.exceptions import FairnessWarning, warn_user
from skfairdp.foundation.figures import significant_up
from skfairdp.inprocessing.every_tolerance import EveryTolerance
from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.fair_path.display import FairPathDisplay
from skfairdp.inprocessing.fair_path.envelope import Envelopes
from skfairdp.inprocessing.fair_path.path import AROUND_ONE, ReleasedPath, around
from skfairdp.inprocessing.fair_path.tables import planned
from skfairdp.inprocessing.gradient import GradientClassifier
from skfairdp.inprocessing.rates.constraints import Floats
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums
from skfairdp.privacy.plan import Plan
from skfairdp.records.stored_rows import in_chunks


class PathClassifier(EveryTolerance, GradientClassifier):
    """Template of a classifier that answers from a released path.

    A mechanism trains the net, and sets `decided_`, `direction_`, `start_`, `changed_` and
    `improved_`.
    """

    threshold: float

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

    def _path_of(self, plan: Plan, rates: Rates | None = None) -> ReleasedPath:
        rates = self._rates if rates is None else rates  # of a fit that has no classes_ yet
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
            direction=self.direction_,
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

    def path(self) -> pd.DataFrame:
        """List the start of the path, and its points that tolerances are answered with.

        Returns
        -------
        DataFrame
            The start, with the tolerance that it keeps to; then a row a point, towards no
            constraint: the smallest tolerance that `at` answers with it. Its multiplier, the
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

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Compute the adjusted scores.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to score. Their groups are not needed.

        Returns
        -------
        ndarray of float64, shape (n_samples,) or (n_samples, n_classes)
            Of two classes ``2 (eta - threshold) - multiplier_ * s``, positive for rows that get
            the second one; of more ``eta_k - multiplier_ * s_k`` for each class, the largest for
            the one that rows get: see ``docs/theory/fair_path.md``.
        """
        gains, costs = np.hsplit(self._scores(X), 2)
        scores = gains - self.multiplier_ * costs
        return scores[:, 0] if self._is_binary else scores

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        gains, _ = np.hsplit(self._scores(X), 2)
        if not self._is_binary:
            return gains
        positive = np.clip(0.5 * (2.0 * self.threshold + gains[:, 0]), 0.0, 1.0)
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
        return self._asked_once(X, self._scored)

    def _scored(self, X: np.ndarray) -> np.ndarray:
        from skfairdp.engine.inference import outputs
        from skfairdp.inprocessing.fair_path.scores import Chances, Scores

        n_groups = len(self.direction_)
        chances = Chances(self.module_, self._rates, n_groups, float(self.threshold))
        return outputs(Scores(chances, self.direction_), X)
