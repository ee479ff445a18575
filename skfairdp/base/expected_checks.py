"""Checks of scikit-learn that noise fails on purpose: a tag of every estimator."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from sklearn.utils import Tags

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
