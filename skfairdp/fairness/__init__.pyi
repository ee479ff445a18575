from .bounds.binomial_cells import clopper_pearson
from .bounds.gated_answers import answered_guarantee
from .bounds.head_claim import theorem2_guarantee
from .bounds.head_noise import theorem2_bound
from .bounds.noisy_counts import NoisyCells, private_gap_upper_bound
from .bounds.rate_gaps import gap_estimate, gap_upper_bound, score_gap_upper_bound
from .gate import ParityGate
from .guarantee import CellCount, FairnessGuarantee
from .notions import NOTIONS, Notion, get_notion, pairs
from .smallest_gap import SmallestGap, certifiable

__all__ = [
    "NOTIONS",
    "CellCount",
    "SmallestGap",
    "FairnessGuarantee",
    "NoisyCells",
    "Notion",
    "ParityGate",
    "answered_guarantee",
    "certifiable",
    "clopper_pearson",
    "gap_estimate",
    "gap_upper_bound",
    "get_notion",
    "pairs",
    "private_gap_upper_bound",
    "score_gap_upper_bound",
    "theorem2_bound",
    "theorem2_guarantee",
]
