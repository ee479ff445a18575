"""Alias module: pickles of version 0.1 look for `Certificate` here."""

from skfairdp.certificate.certificate import Certificate

__all__ = ["Certificate"]
