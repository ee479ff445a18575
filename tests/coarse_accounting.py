"""Privacy losses on a coarser grid, for tests that need an upper bound and not the closest one.

The grid of the package has steps of 1e-4 and takes a tenth of the time of all tests. With steps of
1e-3 losses are rounded up as well, so what is stated is a valid bound, a little larger. The answers
of the two grids are kept apart: each has its own cache, which all modules share.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from skfairdp.privacy.accounting import accountants, calibration

INTERVAL = 1e-3
_FINE = accountants.COARSEST, accountants._cost, calibration._solve
_cost = lru_cache(maxsize=None)(accountants._cost.__wrapped__)
_solve = lru_cache(maxsize=None)(calibration._solve.__wrapped__)


def account_coarsely(patch: pytest.MonkeyPatch) -> None:
    """Let all that asks for epsilon or calibrates noise use the coarse grid."""
    _account(patch, INTERVAL, _cost, _solve)


def account_finely(patch: pytest.MonkeyPatch) -> None:
    """Give the package its own grid back."""
    _account(patch, *_FINE)


def _account(patch: pytest.MonkeyPatch, interval: float, cost: Any, solve: Any) -> None:
    patch.setattr(accountants, "COARSEST", interval)
    patch.setattr(accountants, "_cost", cost)
    patch.setattr(calibration, "_solve", solve)
