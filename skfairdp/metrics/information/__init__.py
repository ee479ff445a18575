"""Mutual information of two variables: estimates, a proved lower bound, a test."""

from skfairdp.metrics.information.estimates import nearest_neighbours, plug_in
from skfairdp.metrics.information.mine import mine
from skfairdp.metrics.information.mutual_information import (
    MutualInformation,
    classifier_lower_bound,
    mutual_information,
    permutation_p_value,
)

__all__ = [
    "MutualInformation",
    "classifier_lower_bound",
    "mine",
    "mutual_information",
    "nearest_neighbours",
    "permutation_p_value",
    "plug_in",
]
