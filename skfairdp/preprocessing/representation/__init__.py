"""The old place of :mod:`skfairdp.representation`, for one release."""

from skfairdp.deprecation import moved

__getattr__ = moved(__name__, "skfairdp.representation")
