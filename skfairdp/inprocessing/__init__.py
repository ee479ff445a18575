"""Mechanisms that act while a model is trained."""

from skfairdp.inprocessing.dpsgd import DPSGDClassifier
from skfairdp.inprocessing.fairdp import FairDPClassifier

__all__ = ["DPSGDClassifier", "FairDPClassifier"]
