from .certificate import Certificate
from .certifying import certify

__all__ = ["Certificate", "certify"]
