from .bounds import downstream_bound, group_information_bound, information_bound, leakage_bound
from .display import TotalVariationDisplay
from .encoder import PrivateFairEncoder
from .laplace_transformer import LaplaceTransformer
from .randomizers import LaplaceRandomizer, ResponseRandomizer
from .release_memory import ReleaseMemory, RowStreams

__all__ = [
    "LaplaceRandomizer",
    "LaplaceTransformer",
    "PrivateFairEncoder",
    "ReleaseMemory",
    "ResponseRandomizer",
    "RowStreams",
    "TotalVariationDisplay",
    "downstream_bound",
    "group_information_bound",
    "information_bound",
    "leakage_bound",
]
