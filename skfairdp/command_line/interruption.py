"""What stays when a run breaks off: what was charged, and which files were written."""

from __future__ import annotations

from pathlib import Path

from skfairdp.exceptions import SkfairdpError
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.ledger.rendering import ledger_cells


class Aftermath:
    """Keeps account of one run.

    `budget`: what the run was asked to spend, in words, where there is no ledger.
    """

    def __init__(self, ledger: PrivacyLedger | None, budget: str) -> None:
        self._ledger = ledger
        self._budget = budget
        self._known = set() if ledger is None else {entry.number for entry in ledger.entries()}
        self._written: list[Path] = []
        self._begun = False

    def begin(self) -> None:
        """Record that rows are used from now on."""
        self._begun = True

    def wrote(self, path: Path) -> None:
        """Record a file that is whole."""
        self._written.append(path)

    def lines(self) -> list[str]:
        """Say what stays.

        Result: empty while nothing was charged.
        """
        charged = self._charged() if self._begun else None
        if charged is None:
            return []
        files = ", ".join(map(str, self._written)) or "none"
        return [f"What was charged stays charged: {charged}.", f"Files written: {files}."]

    def _charged(self) -> str | None:
        if self._ledger is None:
            return f"no ledger was named, so count {self._budget} as spent"
        try:
            entries = [e for e in self._ledger.entries() if e.number not in self._known]
        except (SkfairdpError, OSError) as error:
            return f"the ledger could not be read ({type(error).__name__}), so count {self._budget}"
        if not entries:
            return None
        told = ("{0} ({2}, {3}: ε = {4}, δ = {5}, {7})".format(*ledger_cells(e)) for e in entries)
        return f"entry {', entry '.join(told)} of {self._ledger.path}"
