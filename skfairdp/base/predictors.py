"""Base classes of classifiers and regressors."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skfairdp.base.estimator import PrivateEstimator
from skfairdp.base.expected_checks import (
    DECISIONS_FOR_COSTS,
    DRAWN_DECISIONS,
    FRESH_FITS,
    FRESH_REGRESSIONS,
    expecting,
)
from skfairdp.foundation.scikit_learn import ClassifierMixin, RegressorMixin
from skfairdp.privacy.plan import Plan
from skfairdp.receipts import Quote
from skfairdp.records.labels import encode_labels
from skfairdp.records.numbers import check_numbers
from skfairdp.records.rows import check_features, check_rows


class Planned:
    """Mixin of estimators whose fit releases what a plan lists."""

    _quote_kept: Quote

    @property
    def plan_(self) -> Plan:
        plan = self._quote_kept.plan
        assert plan is not None  # or there is no receipt
        return plan


class Calibrated(Planned):
    """Mixin of estimators whose plan has one noise multiplier."""

    @property
    def noise_multiplier_(self) -> float:
        multiplier = self._quote_kept.noise_multiplier
        assert multiplier is not None  # or there is no receipt
        return multiplier


class PrivatePredictor(PrivateEstimator):
    """Base class of all private classifiers and regressors."""

    @property
    def _takes_images(self) -> bool:
        """Whether a row may have further dimensions."""
        return getattr(self, "net", None) is not None

    def _features(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return check_features(self, X, allow_nd=self._takes_images)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = not self.reproducible_noise
        tags.input_tags.sparse = self._in_parts
        return expecting(tags, FRESH_FITS if tags.non_deterministic else {})


class PrivateClassifier(ClassifierMixin, PrivatePredictor):
    """Base class of all private classifiers.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Class labels.
    """

    _multiclass: ClassVar[bool] = True

    classes_: np.ndarray = field(init=False)

    def _rows_of_fit(
        self, X: Any, y: Any, declared: Any
    ) -> tuple[NDArray, NDArray, NDArray[np.int64]]:
        """Rows of a fit, its classes, and a code of each label; -1 for one outside `declared`."""
        images, known = self._takes_images, declared is not None
        X, y = check_rows(self, X, y, allow_nd=images, labels_declared=known)
        return X, *encode_labels(y, declared, multiclass=self._multiclass)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        tags.classifier_tags.multi_class = self._multiclass
        drawn = DRAWN_DECISIONS if self._draws_decisions else {}
        for_costs = DECISIONS_FOR_COSTS if getattr(self, "costs", None) is not None else {}
        return expecting(tags, tags.expected_failed_checks, drawn, for_costs)

    @property
    def _draws_decisions(self) -> bool:
        """Whether `predict` draws, so that a row may get the less likely class."""
        return False

    @property
    def _decides_by_parameters(self) -> bool:
        """Whether the parameters of `module_`, or `theta_`, alone decide about a row."""
        return False


class PrivateRegressor(RegressorMixin, PrivatePredictor):
    """Base class of all private regressors."""

    def _numbers_of_fit(self, X: Any, y: Any) -> tuple[NDArray, NDArray[np.float64]]:
        """Rows of a fit and the number of each."""
        X = check_features(self, X, allow_nd=self._takes_images, reset=True)
        return X, check_numbers(self, y, len(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        fresh = FRESH_REGRESSIONS if tags.non_deterministic else {}
        return expecting(tags, tags.expected_failed_checks, fresh)
