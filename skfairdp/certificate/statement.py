"""Where pickles of version 0.1 look for `Certificate`."""

from skfairdp.certificate.certificate import Certificate

__all__ = ["Certificate"]
