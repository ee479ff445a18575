"""Training rows: as a caller gives them."""

from .given import Given

__all__ = ["Given"]
