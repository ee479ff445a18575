"""What a plan costs: events, accountants, calibration."""

from __future__ import annotations

from skfairdp.privacy.accounting.plan_cost import (
    accountant_name,
    compose,
    covering_event,
    epsilon,
    epsilons,
    events,
)

__all__ = ["accountant_name", "compose", "covering_event", "epsilon", "epsilons", "events"]
