"""The commands train for a few epochs: what they say and write does not depend on the model."""

from __future__ import annotations

import pytest

from skfairdp.command_line.reporting import MECHANISMS


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, make in MECHANISMS.items():
        monkeypatch.setitem(
            MECHANISMS, name, lambda wanted, make=make: make(wanted).set_params(max_epochs=3)
        )
