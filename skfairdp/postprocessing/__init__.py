"""Decisions on top of a fitted model: abstention under a parity gate, smoothing."""

from __future__ import annotations

from .abstaining import AbstainingClassifier
from .smoothed import SmoothedClassifier
from .turnstile import Turnstile

__all__ = ["AbstainingClassifier", "SmoothedClassifier", "Turnstile"]
