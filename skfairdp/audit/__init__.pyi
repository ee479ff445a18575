from .canaries import Canaries, closeness, log_odds, orthogonal_canaries
from .one_run_bound import count_correct_guesses, one_run_epsilon, one_run_p_value
from .result import AuditResult
from .runs import audit_many_runs, audit_one_run

__all__ = [
    "AuditResult",
    "Canaries",
    "audit_many_runs",
    "audit_one_run",
    "closeness",
    "count_correct_guesses",
    "log_odds",
    "one_run_epsilon",
    "one_run_p_value",
    "orthogonal_canaries",
]
