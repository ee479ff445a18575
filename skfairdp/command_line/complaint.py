"""What the command line says when it can't do what was asked."""

from __future__ import annotations

__all__ = ["CommandError"]


class CommandError(Exception):
    """Something that was given on the command line is not what it should be."""
