"""How much one variable tells about another: estimates, a proved lower bound, a test."""

from __future__ import annotations

from skfairdp.fairness.bounds.leakage import classifier_lower_bound
from skfairdp.fairness.information import MutualInformation
from skfairdp.metrics.information.estimates import nearest_neighbours, plug_in
from skfairdp.metrics.information.mine import mine
from skfairdp.metrics.information.mutual_information import mutual_information, permutation_p_value

__all__ = [
    "MutualInformation",
    "classifier_lower_bound",
    "mine",
    "mutual_information",
    "nearest_neighbours",
    "permutation_p_value",
    "plug_in",
]
