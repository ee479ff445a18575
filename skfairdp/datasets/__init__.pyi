from .adult import fetch_adult
from .colored_digits import make_colored_mnist
from .compas import fetch_compas
from .gaussians import make_biased_gaussians
from .images import fetch_utkface
from .mortgages import load_mortgage_approvals
from .parquet_rows import ParquetRows
from .students import fetch_hsls, fetch_law_school, fetch_oulad
from .uci import fetch_abalone, fetch_bank, fetch_default_credit, fetch_diabetes130

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
    "fetch_oulad",
    "fetch_utkface",
    "load_mortgage_approvals",
    "make_biased_gaussians",
    "make_colored_mnist",
]
