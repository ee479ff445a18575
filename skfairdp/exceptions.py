"""Errors and warnings that skfairdp raises on purpose."""

from __future__ import annotations

__all__ = [
    "BudgetExceededError",
    "FairnessWarning",
    "IncomparableModelError",
    "LedgerError",
    "PrivacyWarning",
    "SignatureError",
    "SkfairdpError",
    "TableError",
    "UnboundModelError",
    "UnknownGroupError",
]


class SkfairdpError(Exception):
    """Base class of the errors that only this package raises."""


class BudgetExceededError(SkfairdpError):
    """A computation would cost more privacy than its budget holds."""


class IncomparableModelError(SkfairdpError):
    """Whether a certificate is about a model cannot be told here."""


class LedgerError(SkfairdpError):
    """A privacy ledger cannot be read, written or understood."""


class MonitorError(SkfairdpError):
    """A monitor's file cannot be used, or is that of another monitor."""


class SignatureError(SkfairdpError):
    """A key is missing, or cannot be read, written or used."""


class TableError(SkfairdpError):
    """A table of answers that several processes share cannot be read or written."""


class UnboundModelError(SkfairdpError, TypeError):
    """Predictions depend on something that no digest can cover."""


class UnknownGroupError(SkfairdpError, ValueError):
    """A row belongs to a group that the model has not been told about."""


class PrivacyWarning(UserWarning):
    """A setting weakens or voids the privacy guarantee."""


class FairnessWarning(UserWarning):
    """A setting weakens or voids the fairness guarantee."""
