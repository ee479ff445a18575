"""Decisions on top of a fitted model: abstention under a parity gate, smoothing."""

from __future__ import annotations

from skfairdp.postprocessing.abstaining import AbstainingClassifier
from skfairdp.postprocessing.query_state import Turnstile
from skfairdp.postprocessing.smoothed import SmoothedClassifier

__all__ = ["AbstainingClassifier", "SmoothedClassifier", "Turnstile"]
