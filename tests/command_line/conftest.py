"""The commands train for a few epochs: what they say and write does not depend on the model."""

from __future__ import annotations

from typing import Any

import pytest

from skfairdp.command_line import reporting


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = reporting.estimator_of

    def brief(*asked: Any) -> Any:
        return made(*asked).set_params(max_epochs=3)

    monkeypatch.setattr(reporting, "estimator_of", brief)
