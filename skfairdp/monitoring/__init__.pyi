from .monitor import GapMonitor

__all__ = ["GapMonitor"]
