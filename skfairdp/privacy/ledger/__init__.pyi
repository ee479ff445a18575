from .ledger import LEDGER, PrivacyLedger, as_ledger
from .records import Entry
from .row_digests import data_set_name

__all__ = ["Entry", "LEDGER", "PrivacyLedger", "as_ledger", "data_set_name"]
