"""Scorers and reports on fairlearn's metrics."""

from skfairdp.metrics.abstention import AnsweredRows, answered
from skfairdp.metrics.gaps import group_gap
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
    "accuracy_parity_scorer",
    "answered",
    "demographic_parity_scorer",
    "equal_opportunity_scorer",
    "equalized_odds_scorer",
    "fairness_report",
    "group_gap",
]
