"""Scorers and reports on fairlearn's metrics, and measures of information."""

from skfairdp.metrics.abstention import AnsweredRows, answered
from skfairdp.metrics.gaps import group_gap
from skfairdp.metrics.information import (
    MutualInformation,
    classifier_lower_bound,
    mine,
    mutual_information,
    nearest_neighbours,
    permutation_p_value,
    plug_in,
)
from skfairdp.metrics.report import FairnessReport, fairness_report
from skfairdp.metrics.scorers import (
    AccuracyUnderGapScorer,
    GapScorer,
    accuracy_parity_scorer,
    demographic_parity_scorer,
    equal_opportunity_scorer,
    equalized_odds_scorer,
)

__all__ = [
    "AccuracyUnderGapScorer",
    "AnsweredRows",
    "FairnessReport",
    "GapScorer",
    "MutualInformation",
    "accuracy_parity_scorer",
    "answered",
    "classifier_lower_bound",
    "demographic_parity_scorer",
    "equal_opportunity_scorer",
    "equalized_odds_scorer",
    "fairness_report",
    "group_gap",
    "mine",
    "mutual_information",
    "nearest_neighbours",
    "permutation_p_value",
    "plug_in",
]
