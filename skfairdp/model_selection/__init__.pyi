from .cost import SearchCost, search_cost
from .display import ParetoDisplay
from .explorer import explorer_page, save_explorer
from .frontier import pareto_frontier
from .one_budget import fit_within
from .record_split import RecordSplit
from .search import PrivateSearchCV
from .specification import specify
from .specification_result import Attempt, Specification

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
