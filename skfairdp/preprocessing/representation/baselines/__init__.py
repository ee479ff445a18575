"""The old place of :mod:`skfairdp.comparators`, for one release."""

from __future__ import annotations

from skfairdp.deprecation import moved

__getattr__ = moved(__name__, "skfairdp.comparators")
