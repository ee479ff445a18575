"""Costs that verification computes again from the events of a statement."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from dp_accounting import dp_event

from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.accounting.events import canonical
from skfairdp.privacy.accounting.exposure import Exposure, event_cost, recomputed_epsilons

GAUSSIAN, COUNT = dp_event.GaussianDpEvent(2.0), dp_event.DiscreteLaplaceDpEvent(0.25, 2)


def stated(**fields: Any) -> Any:
    given = {"delta": 1e-5, "adjacency": "add-remove", "per_group": None, "event": None}
    return SimpleNamespace(**(given | {"exposures": ()} | fields))


def test_the_cost_of_a_group_is_that_of_the_events_in_which_its_records_are() -> None:
    exposures = (Exposure(GAUSSIAN, ("a",)), Exposure(COUNT, ("b", "c")), Exposure(COUNT))
    found = recomputed_epsilons(
        stated(exposures=exposures, per_group=dict.fromkeys(("a", "b"), 9.0))
    )
    of_gaussian = event_epsilon(GAUSSIAN, 1e-5, "add-remove")
    assert found == {None: of_gaussian, "a": of_gaussian, "b": pytest.approx(0.5, rel=1e-4)}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "holds no event"),
        (
            {"exposures": (Exposure(GAUSSIAN, ("a",)),), "per_group": {"a": 1.0, "b": 1.0}},
            "of a record of the group 'b'",
        ),
    ],
)
def test_a_statement_without_an_event_for_some_record_is_refused(fields, words) -> None:
    with pytest.raises(ValueError, match=words):
        recomputed_epsilons(stated(**fields))


def test_pure_releases_cost_no_more_than_their_sum_and_the_rest_is_added() -> None:
    pure = (COUNT, dp_event.LaplaceDpEvent(4.0), dp_event.NoOpDpEvent())
    assert event_cost(dp_event.ComposedDpEvent(pure), 0.0, "add-remove") == pytest.approx(0.75)
    both = dp_event.ComposedDpEvent((*pure, GAUSSIAN))
    alone = event_epsilon(GAUSSIAN, 1e-5, "add-remove")
    assert alone < event_cost(both, 1e-5, "add-remove") <= alone + 0.75


def test_where_no_accountant_answers_pure_releases_are_added_up_and_others_refused() -> None:
    assert event_cost(dp_event.SelfComposedDpEvent(COUNT, 3), 1e-5, "local") == 1.5
    with pytest.raises(ValueError, match="no accountant knows the cost of its event under 'local'"):
        event_cost(GAUSSIAN, 1e-5, "local")
    with pytest.raises(ValueError, match="'local' cannot be accounted for"):
        event_epsilon(GAUSSIAN, 1e-5, "local")


class Unhashable(dp_event.DpEvent):
    """An event of another maker, which no cache can hold."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other


def test_an_event_of_another_maker_is_refused_and_never_cached() -> None:
    with pytest.raises(ValueError, match="no accountant takes Unhashable"):
        event_epsilon(Unhashable(), 1e-5, "add-remove")


@pytest.mark.parametrize(
    ("event", "cost"),
    [
        (dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0,), (1.0,)), dp_event.NoOpDpEvent()),
        (dp_event.MixtureOfGaussiansDpEvent(1.0, (1.0,), (0.0,)), None),
        (dp_event.MixtureOfGaussiansDpEvent(0.0, (1.0,), (1.0,)), dp_event.NonPrivateDpEvent()),
        (dp_event.TruncatedSubsampledGaussianDpEvent(0, 0.1, 5, 1.0), dp_event.NoOpDpEvent()),
        (dp_event.TruncatedSubsampledGaussianDpEvent(9, 0.1, 5, 0.0), dp_event.NonPrivateDpEvent()),
    ],
    ids=lambda one: type(one).__name__,
)
def test_sampled_releases_without_a_record_cost_nothing_and_without_noise_everything(
    event, cost
) -> None:
    if cost is None:  # probabilities that add up to 0
        with pytest.raises(ValueError, match="sampling_probs"):
            canonical(event)
    else:
        assert canonical(event) == cost


def test_labels_that_json_has_not_are_refused() -> None:
    for label, words in ((float("nan"), "finite"), (b"a", "of type bytes")):
        with pytest.raises(ValueError, match=words):
            Exposure(GAUSSIAN, (label,)).to_dict()
    document = Exposure(GAUSSIAN, (("f", 1),)).to_dict()
    assert Exposure.from_dict(document) == Exposure(GAUSSIAN, (("f", 1),))
    assert replace(Exposure.from_dict(document), groups=None).to_dict()["groups"] is None
