"""Alias module: pickles of version 0.1 look for `PairState` here."""

from skfairdp.monitoring.evidence import PairState

__all__ = ["PairState"]
