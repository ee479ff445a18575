from .argument import LEDGER, as_ledger
from .entry import Entry
from .ledger import PrivacyLedger
from .row_digests import data_set_name

__all__ = ["Entry", "LEDGER", "PrivacyLedger", "as_ledger", "data_set_name"]
