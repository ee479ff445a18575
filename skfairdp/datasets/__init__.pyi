from .abalone import fetch_abalone
from .adult import fetch_adult
from .bank import fetch_bank
from .colored_digits import make_colored_mnist
from .compas import fetch_compas
from .credit import fetch_default_credit
from .diabetes import fetch_diabetes130
from .faces import fetch_utkface
from .gaussians import make_biased_gaussians
from .hsls import fetch_hsls
from .law_school import fetch_law_school
from .mortgages import load_mortgage_approvals
from .parquet_rows import ParquetRows

__all__ = [
    "ParquetRows",
    "fetch_abalone",
    "fetch_adult",
    "fetch_bank",
    "fetch_compas",
    "fetch_default_credit",
    "fetch_diabetes130",
    "fetch_hsls",
    "fetch_law_school",
    "fetch_utkface",
    "load_mortgage_approvals",
    "make_biased_gaussians",
    "make_colored_mnist",
]
