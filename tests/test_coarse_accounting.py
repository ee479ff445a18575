"""The coarser grid of most fast tests: upper bounds that are hardly larger."""

from __future__ import annotations

import pytest
from dp_accounting import dp_event

from skfairdp.privacy.accounting import accountants
from tests.coarse_accounting import account_coarsely

DELTA = 1e-5


def steps(rate: float, noise: float, count: int) -> dp_event.DpEvent:
    sampled = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise))
    return dp_event.SelfComposedDpEvent(sampled, count)


@pytest.mark.parametrize("adjacency", ["zero-out", "add-remove", "change-attribute"])
@pytest.mark.parametrize(
    "event",
    [
        steps(0.2, 4.0, 25),
        steps(0.05, 1.5, 100),
        steps(0.2, 0.9, 10),
        dp_event.GaussianDpEvent(2.0),
    ],
    ids=["many", "rare", "costly", "once"],
)
def test_the_coarse_grid_understates_nothing_and_overstates_little(
    event: dp_event.DpEvent, adjacency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = accountants.event_epsilon(event, DELTA, adjacency)
    account_coarsely(monkeypatch)
    coarse = accountants.event_epsilon(event, DELTA, adjacency)
    assert fine * (1.0 - 1e-6) <= coarse <= fine * 1.001
    monkeypatch.undo()
    assert accountants.event_epsilon(event, DELTA, adjacency) == fine  # caches are kept apart
