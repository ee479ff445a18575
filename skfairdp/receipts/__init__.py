"""Prices of fits before they run: quotes, and the facts they are made from."""

from .facts import RowFacts
from .quoted import PlannedRelease, Quote
from .quoting import quote
from .room import LedgerRoom
from .verdict import Verdict

__all__ = ["LedgerRoom", "PlannedRelease", "Quote", "RowFacts", "Verdict", "quote"]
