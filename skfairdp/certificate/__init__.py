"""Certificates: what one fitted model guarantees, bound to its weights by a digest."""

from skfairdp.certificate.certifying import certify
from skfairdp.certificate.statement import Certificate

__all__ = ["Certificate", "certify"]
