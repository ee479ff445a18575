"""Errors and warnings that skfairdp raises on purpose."""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from typing import Any


class SkfairdpError(Exception):
    """Base class of the errors that only this package raises."""


class BudgetExceededError(SkfairdpError):
    """A computation would cost more privacy than its budget holds."""


class IncomparableModelError(SkfairdpError):
    """It cannot be checked here whether a certificate is about a model."""


class LedgerError(SkfairdpError):
    """A privacy ledger cannot be read, written or understood."""


class MonitorError(SkfairdpError):
    """A monitor's file cannot be used, or is that of another monitor."""


class PlanError(SkfairdpError):
    """A mechanism releases something else than its plan says, or plans for other data."""


class SignatureError(SkfairdpError):
    """A key is missing, or cannot be read, written or used."""


class TableError(SkfairdpError):
    """A table of answers that several processes share cannot be read or written."""


class UnboundModelError(SkfairdpError, TypeError):
    """Predictions depend on something that no digest can cover."""


class UnknownGroupError(SkfairdpError, ValueError):
    """A row belongs to a group that the model does not know."""


class PrivacyWarning(UserWarning):
    """A setting weakens or voids the privacy guarantee."""


class FairnessWarning(UserWarning):
    """A setting weakens or voids the fairness guarantee."""


class UtilityWarning(UserWarning):
    """Noise hides most of the training rows' signal, so that a model is hardly of use."""


# Searches that have warned, each with its results at that time: those of its fit before, if any.
_searches: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def warn_of_weak_fit(message: str) -> None:
    """Warn that a model is hardly of use; a search of scikit-learn warns once a call of `fit`."""
    frame = sys._getframe(1).f_back
    while frame is not None:
        caller = frame.f_locals.get("self") if frame.f_code.co_name == "fit" else None
        if hasattr(caller, "cv") and hasattr(caller, "refit"):  # GridSearchCV and its like
            before = vars(caller).get("cv_results_")
            if caller in _searches and _searches[caller] is before:
                return
            _searches[caller] = before
            message += " (Of the fits of this search, only the first such one warns.)"
            break
        frame = frame.f_back
    warn_user(message, UtilityWarning)


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside the package whose call led here."""
    package = os.path.dirname(__file__) + os.sep
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
