from .entry import Entry
from .ledger import LEDGER, PrivacyLedger, as_ledger
from .row_digests import data_set_name

__all__ = ["Entry", "LEDGER", "PrivacyLedger", "as_ledger", "data_set_name"]
