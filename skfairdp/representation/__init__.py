"""Representations that are released: private for each row, fair for predictors from them alone."""

from __future__ import annotations

from skfairdp.representation.bounds import (
    downstream_bound,
    group_information_bound,
    information_bound,
    leakage_bound,
)
from skfairdp.representation.encoder import PrivateFairEncoder
from skfairdp.representation.laplace_transformer import LaplaceTransformer
from skfairdp.representation.randomizers import LaplaceRandomizer, ResponseRandomizer
from skfairdp.representation.release_memory import ReleaseMemory, RowStreams

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
