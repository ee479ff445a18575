"""Training rows: checked, encoded, in memory or on disk."""

from .given import Given

__all__ = ["Given"]
