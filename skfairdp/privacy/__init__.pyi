from .accounting.accountants import accountant_name
from .accounting.calibration import noise_multiplier_for
from .accounting.events import covering_event, events
from .accounting.plan_cost import compose, epsilon, epsilons
from .guarantee import PrivacyGuarantee
from .ledger import PrivacyLedger
from .noise import NoiseSource
from .plan import Block, CountRelease, LaplaceSum, Plan, Segment
from .relations import ADJACENCIES, PROTECTS

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
