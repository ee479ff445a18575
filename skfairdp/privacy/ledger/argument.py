"""What estimators accept as ``ledger=``."""

from __future__ import annotations

import os

from skfairdp.parameters import Choice, Kind
from skfairdp.privacy.ledger.ledger import PrivacyLedger

LEDGER = (Choice((None,)), Kind((str, os.PathLike, PrivacyLedger), "a path or a PrivacyLedger"))


def as_ledger(ledger: str | os.PathLike[str] | PrivacyLedger | None) -> PrivacyLedger | None:
    """Open what an estimator was given as its ledger.

    `ledger`: a path stands for its data set "default".
    """
    if ledger is None or isinstance(ledger, PrivacyLedger):
        return ledger
    if isinstance(ledger, (str, os.PathLike)):
        return PrivacyLedger(ledger)
    raise ValueError(f"'ledger' must be None, a path or a PrivacyLedger; got {ledger!r}.")
