"""What is equalised, and how sure we are: groups, notions, intervals, guarantees."""

from skfairdp.fairness.bounds.binomial_cells import clopper_pearson
from skfairdp.fairness.bounds.gated_answers import answered_guarantee
from skfairdp.fairness.bounds.head_noise import theorem2_bound, theorem2_guarantee
from skfairdp.fairness.bounds.noisy_counts import NoisyCells, private_gap_upper_bound
from skfairdp.fairness.bounds.rate_gaps import (
    gap_estimate,
    gap_upper_bound,
    score_gap_upper_bound,
)
from skfairdp.fairness.gate import ParityGate
from skfairdp.fairness.groups import Groups, encode_groups
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.notions import NOTIONS, Notion, get_notion, pairs
from skfairdp.fairness.smallest_gap import SmallestGap, certifiable

__all__ = [
    "NOTIONS",
    "CellCount",
    "SmallestGap",
    "FairnessGuarantee",
    "Groups",
    "NoisyCells",
    "Notion",
    "ParityGate",
    "answered_guarantee",
    "certifiable",
    "clopper_pearson",
    "encode_groups",
    "gap_estimate",
    "gap_upper_bound",
    "get_notion",
    "pairs",
    "private_gap_upper_bound",
    "score_gap_upper_bound",
    "theorem2_bound",
    "theorem2_guarantee",
]
