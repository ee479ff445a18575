"""Quotes before fits, charges during fits, and receipts of the fitted state."""

from skfairdp.records.facts import RowFacts

from .quoted import Quote, Verdict
from .quoting import quote
from .receipt import Charge, Receipt
from .rendering import PlannedRelease
from .room import LedgerRoom

__all__ = [
    "Charge",
    "LedgerRoom",
    "PlannedRelease",
    "Quote",
    "Receipt",
    "RowFacts",
    "Verdict",
    "quote",
]
