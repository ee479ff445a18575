"""Scorers and reports on fairlearn's metrics."""

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
    "FairnessReport",
    "GapScorer",
    "accuracy_parity_scorer",
    "demographic_parity_scorer",
    "equal_opportunity_scorer",
    "equalized_odds_scorer",
    "fairness_report",
    "group_gap",
]
