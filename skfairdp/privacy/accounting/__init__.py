"""What a plan costs: events, accountants, calibration."""

from __future__ import annotations

from skfairdp.privacy.accounting.accountants import accountant_name
from skfairdp.privacy.accounting.events import covering_event, events
from skfairdp.privacy.accounting.plan_cost import compose, epsilon, epsilons

__all__ = ["accountant_name", "compose", "covering_event", "epsilon", "epsilons", "events"]
