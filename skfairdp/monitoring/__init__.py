"""Certificates speak of one day; a monitor keeps the claim as long as the model lives."""

from __future__ import annotations

from skfairdp.monitoring.monitor import GapMonitor

__all__ = ["GapMonitor"]
