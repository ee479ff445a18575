"""Quotes before fits, charges during fits, and receipts of the fitted state."""

from skfairdp.records.facts import RowFacts

from .quoted import PlannedRelease, Quote
from .quoting import quote
from .receipt import Charge, Receipt
from .room import LedgerRoom
from .verdict import Verdict

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
