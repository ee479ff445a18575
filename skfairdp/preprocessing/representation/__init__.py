"""The old place of :mod:`skfairdp.representation`, for one release."""

from __future__ import annotations

from skfairdp.deprecation import moved

__getattr__ = moved(
    __name__,
    "skfairdp.representation",
    (
        "LaplaceRandomizer",
        "LaplaceTransformer",
        "PrivateFairEncoder",
        "ReleaseMemory",
        "ResponseRandomizer",
        "RowStreams",
        "downstream_bound",
        "group_information_bound",
        "information_bound",
        "leakage_bound",
    ),
)
