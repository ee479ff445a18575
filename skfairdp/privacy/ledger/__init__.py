"""What was spent on a data set, remembered across fits, processes and days."""

from __future__ import annotations

from skfairdp.privacy.ledger.argument import LEDGER, as_ledger
from skfairdp.privacy.ledger.entry import Entry
from skfairdp.privacy.ledger.ledger import PrivacyLedger
from skfairdp.privacy.ledger.row_digests import data_set_name

__all__ = ["Entry", "LEDGER", "PrivacyLedger", "as_ledger", "data_set_name"]
