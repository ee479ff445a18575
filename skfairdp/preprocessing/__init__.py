"""Preprocessing that costs no privacy, because it learns nothing from the rows."""

from __future__ import annotations

from .encoder import PublicEncoder
from .scaler import PublicScaler

__all__ = ["PublicEncoder", "PublicScaler"]
