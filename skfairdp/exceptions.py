"""Errors and warnings that skfairdp raises on purpose."""

from __future__ import annotations

__all__ = [
    "BudgetExceededError",
    "FairnessWarning",
    "LedgerError",
    "PrivacyWarning",
    "SkfairdpError",
    "TableError",
    "UnknownGroupError",
]


class SkfairdpError(Exception):
    """Base class of the errors that only this package raises."""


class BudgetExceededError(SkfairdpError):
    """A computation would cost more privacy than its budget holds."""


class LedgerError(SkfairdpError):
    """A privacy ledger cannot be read, written or understood."""


class TableError(SkfairdpError):
    """A table of answers that several processes share cannot be read or written."""


class UnknownGroupError(SkfairdpError, ValueError):
    """A row belongs to a group that the model has not been told about."""


class PrivacyWarning(UserWarning):
    """A setting weakens or voids the privacy guarantee."""


class FairnessWarning(UserWarning):
    """A setting weakens or voids the fairness guarantee."""
