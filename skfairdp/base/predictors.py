"""Base classes of classifiers and regressors, and the checks of scikit-learn that noise fails."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skfairdp.base.estimator import PrivateEstimator
from skfairdp.foundation.scikit_learn import ClassifierMixin, RegressorMixin
from skfairdp.privacy.plan import Plan
from skfairdp.receipts import Quote
from skfairdp.records.labels import encode_labels
from skfairdp.records.numbers import check_numbers
from skfairdp.records.rows import check_features, check_rows

# Both compare what two fits, or two releases, of the same rows left.
_COMPARING_FITS = (
    "check_classifier_data_not_an_array",
    "check_fit_idempotent",
    "check_supervised_y_2d",
)
_COMPARING_RELEASES = (
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
)
FRESH_FITS = dict.fromkeys(
    _COMPARING_FITS,
    "compares two separate fits; each draws its own noise from the operating system",
)
FRESH_REGRESSIONS = dict.fromkeys(
    ("check_regressor_data_not_an_array", "check_regressors_int"),
    FRESH_FITS["check_fit_idempotent"],
)
FRESH_RELEASES = dict.fromkeys(
    _COMPARING_RELEASES,
    "compares two releases; each draws its own noise from the operating system",
)
NOISE_BY_PLACE = dict.fromkeys(
    ("check_methods_sample_order_invariance", "check_methods_subset_invariance"),
    "noise is drawn by place, so other rows in other places get other noise",
)
DRAWN_DECISIONS = dict.fromkeys(
    ("check_classifiers_classes", "check_classifiers_train"),
    "predict draws a decision for each row; the check expects the likelier class every time",
)
ADJUSTED_DECISIONS = dict.fromkeys(
    ("check_classifiers_train", "check_decision_proba_consistency"),
    "predict and decision_function are adjusted to the tolerance, predict_proba is not",
)
DECISIONS_FOR_COSTS = {
    "check_classifiers_train": "predict follows the threshold for the stated costs; the check "
    "expects the likelier class"
}
UNCORRELATED_DECISIONS = {
    "check_classifiers_train": "decisions are kept uncorrelated with groups: of two columns one "
    "direction is left, which for groups that chance made may say little about the label"
}
MISSING_IS_UNKNOWN = {
    "check_estimators_nan_inf": "a missing value in a declared column is one more unknown value, "
    "encoded as zeros"
}


@dataclass(slots=True)
class CheckedTags(Tags):
    """Tags of scikit-learn, with the common checks that an estimator fails on purpose.

    `expected_failed_checks`: name of each common check that the estimator fails on purpose, and
    why. ``sklearn.utils.estimator_checks.check_estimator`` has a parameter of this name.
    """

    expected_failed_checks: dict[str, str] = field(default_factory=dict)


def expecting(tags: Tags, *failing: dict[str, str]) -> CheckedTags:
    """Add the checks that an estimator fails to its tags, in place of those named before."""
    given = {each.name: getattr(tags, each.name) for each in fields(Tags)}
    joined = {name: reason for part in failing for name, reason in part.items()}
    return CheckedTags(**given, expected_failed_checks=joined)


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
