from .gaps import AnsweredRows, answered, group_gap
from .information.estimates import nearest_neighbours, plug_in
from .information.mine import mine
from .information.mutual_information import (
    MutualInformation,
    classifier_lower_bound,
    mutual_information,
    permutation_p_value,
)
from .report import FairnessReport, fairness_report
from .scorers import (
    AccuracyUnderGapScorer,
    ErrorUnderGapScorer,
    GapScorer,
    accuracy_parity_scorer,
    demographic_parity_scorer,
    equal_opportunity_scorer,
    equalized_odds_scorer,
)

__all__ = [
    "AccuracyUnderGapScorer",
    "AnsweredRows",
    "ErrorUnderGapScorer",
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
