"""Training rows: checked, encoded, sorted into groups, in memory or on disk."""

from .given import Given
from .groups import Groups, encode_groups

__all__ = ["Given", "Groups", "encode_groups"]
