"""Preprocessing that learns nothing from the rows, or pays for what it learns."""

from __future__ import annotations

from .encoder import PublicEncoder
from .representation.encoder import PrivateFairEncoder
from .representation.laplace_transformer import LaplaceTransformer
from .scaler import PublicScaler
from .thinning import PrivateThinningClassifier

__all__ = [
    "LaplaceTransformer",
    "PrivateFairEncoder",
    "PrivateThinningClassifier",
    "PublicEncoder",
    "PublicScaler",
]
