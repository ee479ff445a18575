"""Preprocessing that learns nothing from the rows, or pays for what it learns."""

from __future__ import annotations

from skfairdp.deprecation import moved
from skfairdp.preprocessing.binner import PublicBinner
from skfairdp.preprocessing.encoder import PublicEncoder
from skfairdp.preprocessing.scaler import PublicScaler
from skfairdp.preprocessing.table_encoder import PrivateTableEncoder
from skfairdp.preprocessing.thinning import PrivateThinningClassifier

__all__ = [
    "PrivateTableEncoder",
    "PrivateThinningClassifier",
    "PublicBinner",
    "PublicEncoder",
    "PublicScaler",
]

__getattr__ = moved(
    __name__, "skfairdp.representation", ("LaplaceTransformer", "PrivateFairEncoder")
)
