"""Fairness notions, confidence intervals, fairness guarantees."""

from typing import Any

import lazy_loader

from skfairdp.exceptions import warn_user

_of_this_room, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Return a name of this room, or one that has moved to `skfairdp.records`."""
    if name not in ("Groups", "encode_groups"):
        return _of_this_room(name)
    from skfairdp import records

    warn_user(
        f"skfairdp.fairness.{name} is skfairdp.records.{name} now: import it from there.",
        FutureWarning,
    )
    return getattr(records, name)
