"""Representations that are released: private for each row, fair for whoever predicts from them."""

from __future__ import annotations

from .bounds import (
    downstream_bound,
    group_information_bound,
    information_bound,
    leakage_bound,
)
from .encoder import PrivateFairEncoder
from .laplace_transformer import LaplaceTransformer
from .memory import ReleaseMemory, RowStreams
from .randomizers import LaplaceRandomizer, ResponseRandomizer

__all__ = [
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
]
