"""Errors and warnings that skfairdp raises on purpose."""

from __future__ import annotations

__all__ = [
    "BudgetExceededError",
    "FairnessWarning",
    "PrivacyWarning",
    "SkfairdpError",
    "UnknownGroupError",
]


class SkfairdpError(Exception):
    """Base class of the errors that only this package raises."""


class BudgetExceededError(SkfairdpError):
    """A computation would cost more privacy than its budget holds."""


class UnknownGroupError(SkfairdpError, ValueError):
    """A row belongs to a group that the model has not been told about."""


class PrivacyWarning(UserWarning):
    """A setting weakens or voids the privacy guarantee."""


class FairnessWarning(UserWarning):
    """A setting weakens or voids the fairness guarantee."""
