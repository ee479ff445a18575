"""What is spent: the plan, its cost, the guarantee, and the noise."""

from __future__ import annotations

from skfairdp.privacy.accounting.accountants import accountant_name
from skfairdp.privacy.accounting.calibration import noise_multiplier_for
from skfairdp.privacy.accounting.events import covering_event, events
from skfairdp.privacy.accounting.plan_cost import compose, epsilon, epsilons
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, CountRelease, LaplaceSum, Plan, Segment
from skfairdp.privacy.relations import ADJACENCIES, PROTECTS

__all__ = [
    "ADJACENCIES",
    "Block",
    "CountRelease",
    "LaplaceSum",
    "NoiseSource",
    "PROTECTS",
    "Plan",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "Segment",
    "accountant_name",
    "compose",
    "covering_event",
    "epsilon",
    "epsilons",
    "events",
    "noise_multiplier_for",
]
