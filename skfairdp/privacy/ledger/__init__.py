"""What was spent on a data set, remembered across fits, processes and days."""

from __future__ import annotations

from skfairdp.privacy.ledger.entry import Entry
from skfairdp.privacy.ledger.handle import PrivacyLedger
from skfairdp.privacy.ledger.naming import data_set_name
from skfairdp.privacy.ledger.opening import LEDGER, as_ledger

__all__ = ["Entry", "LEDGER", "PrivacyLedger", "as_ledger", "data_set_name"]
