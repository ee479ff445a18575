"""The command line: report, verify, keygen, ledger, monitor."""

from __future__ import annotations

from skfairdp.command_line.parsing import main

__all__ = ["main"]
