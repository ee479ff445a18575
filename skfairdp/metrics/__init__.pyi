from .gaps import AnsweredRows, answered, group_gap
from .information import (
    MutualInformation,
    classifier_lower_bound,
    mine,
    mutual_information,
    nearest_neighbours,
    permutation_p_value,
    plug_in,
)
from .report import FairnessReport, fairness_report
from .scorers import (
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
