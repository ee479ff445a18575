"""Choosing between models at a known price."""

from skfairdp.model_selection.cost import SearchCost, search_cost
from skfairdp.model_selection.display import ParetoDisplay
from skfairdp.model_selection.explorer import explorer_page, save_explorer
from skfairdp.model_selection.frontier import pareto_frontier
from skfairdp.model_selection.one_budget import fit_within
from skfairdp.model_selection.record_split import RecordSplit
from skfairdp.model_selection.search import PrivateSearchCV
from skfairdp.model_selection.specification import specify
from skfairdp.model_selection.specification_attempts import Attempt
from skfairdp.model_selection.specification_result import Specification

__all__ = [
    "Attempt",
    "ParetoDisplay",
    "PrivateSearchCV",
    "RecordSplit",
    "SearchCost",
    "Specification",
    "explorer_page",
    "fit_within",
    "pareto_frontier",
    "save_explorer",
    "search_cost",
    "specify",
]
