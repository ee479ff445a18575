"""Mechanisms that act while a model is trained."""

from skfairdp.inprocessing.dpsgd import DPSGDClassifier
from skfairdp.inprocessing.fairdp import FairDPClassifier
from skfairdp.inprocessing.public_parity import PublicParity

__all__ = ["DPSGDClassifier", "FairDPClassifier", "PublicParity"]
