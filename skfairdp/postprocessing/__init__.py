"""Decisions on top of a fitted model: abstention under a parity gate."""

from __future__ import annotations

from .abstaining import AbstainingClassifier
from .turnstile import Turnstile

__all__ = ["AbstainingClassifier", "Turnstile"]
