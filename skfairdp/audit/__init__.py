"""Empirical lower bounds on epsilon: a test of the claim, never a proof of it.

An audit hides records ("canaries") among the training rows, guesses from the released
model which ones were there, and asks how surprising the right guesses are under the
claim. A lower bound above the claimed epsilon shows, at the stated confidence, that the
implementation or its accounting is wrong. A bound below it shows only that this attack
failed.
"""

from skfairdp.audit.canaries import Canaries, log_odds, orthogonal_canaries
from skfairdp.audit.many_run import audit_many_runs
from skfairdp.audit.many_run_bound import many_run_epsilon, many_run_p_value
from skfairdp.audit.one_run import audit_one_run
from skfairdp.audit.one_run_bound import count_correct_guesses, one_run_epsilon, one_run_p_value
from skfairdp.audit.result import AuditResult

__all__ = [
    "AuditResult",
    "Canaries",
    "audit_many_runs",
    "audit_one_run",
    "count_correct_guesses",
    "log_odds",
    "many_run_epsilon",
    "many_run_p_value",
    "one_run_epsilon",
    "one_run_p_value",
    "orthogonal_canaries",
]
