"""Certificates: what one fitted model guarantees, bound to its weights by a digest."""

from skfairdp.certificate.certificate import Certificate
from skfairdp.certificate.certifying import certify

__all__ = ["Certificate", "certify"]
