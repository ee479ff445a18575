from .binner import PublicBinner
from .encoder import PublicEncoder
from .scaler import PublicScaler
from .table_encoder import PrivateTableEncoder
from .thinning import PrivateThinningClassifier

__all__ = [
    "PrivateTableEncoder",
    "PrivateThinningClassifier",
    "PublicBinner",
    "PublicEncoder",
    "PublicScaler",
]
