"""Glass-box models: a sum of one function for each column."""

from skfairdp.additive.classifier import DPAdditiveClassifier

__all__ = ["DPAdditiveClassifier"]
