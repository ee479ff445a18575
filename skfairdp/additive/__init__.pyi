from .classifier import DPAdditiveClassifier

__all__ = ["DPAdditiveClassifier"]
