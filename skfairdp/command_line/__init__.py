"""The command line: report, verify, keygen, ledger, monitor."""

from skfairdp.command_line.parsing import main

__all__ = ["main"]
