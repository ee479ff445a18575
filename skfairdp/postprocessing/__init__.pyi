from .abstaining import AbstainingClassifier
from .query_state import Turnstile
from .smoothed import SmoothedClassifier

__all__ = ["AbstainingClassifier", "SmoothedClassifier", "Turnstile"]
