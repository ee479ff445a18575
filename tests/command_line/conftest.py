"""The commands train for a few epochs: what they say and write does not depend on the model."""

from __future__ import annotations

from typing import Any

import pytest

from skfairdp.certificate.render import html
from skfairdp.command_line import filing, planning
from skfairdp.command_line.request import estimator_of


@pytest.fixture
def all_epochs() -> None:
    """For a test that reads what the model has learned."""


@pytest.fixture
def pictures() -> None:
    """For a test that looks at pictures; those of certificates are in tests/certificate."""


@pytest.fixture(autouse=True)
def blank_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(html, "svg", lambda picture: "<svg></svg>")


@pytest.fixture(autouse=True)
def few_epochs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    made = estimator_of

    def brief(*asked: Any) -> Any:
        return made(*asked).set_params(max_epochs=3)

    if "all_epochs" not in request.fixturenames:
        for module in (filing, planning):
            monkeypatch.setattr(module, "estimator_of", brief)
