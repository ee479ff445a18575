"""Statements about privacy: what they claim, refuse, and keep on paper."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest
from dp_accounting import dp_event

from skfairdp.privacy import CountRelease, PrivacyGuarantee
from skfairdp.privacy.accounting.plan_cost import guarantee
from skfairdp.privacy.accounting.table import event_from_dict, event_to_dict
from tests.privacy.plans import fairdp_plan, sgd_plan


@pytest.fixture
def stated() -> PrivacyGuarantee:
    return PrivacyGuarantee(
        epsilon=1.0,
        delta=1e-6,
        adjacency="zero-out",
        per_group={("a", np.int64(1)): 0.5, ("b", 0): 1.0},
        event=dp_event.GaussianDpEvent(4.0),
        assumptions=("one row is one person",),
    )


def through_json(item: PrivacyGuarantee) -> PrivacyGuarantee:
    return PrivacyGuarantee.from_dict(json.loads(json.dumps(item.to_dict(), allow_nan=False)))


@pytest.mark.parametrize(
    "copier", [through_json, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))]
)
def test_copies_are_equal(stated, copier):
    again = copier(stated)
    assert again == stated
    assert hash(again) == hash(stated)
    assert dict(again.per_group) == {("a", 1): 0.5, ("b", 0): 1.0}


@pytest.mark.parametrize(
    "item",
    [
        PrivacyGuarantee.void("the noise was reproducible"),
        guarantee(
            sgd_plan(0.01, 1.1, 10, counts=(CountRelease(name="table", epsilon=0.1, releases=3),))
        ),
        guarantee(fairdp_plan((10, 20), (0.1, 0.2), 1.0, 3)),
        PrivacyGuarantee(1.0, 0.0, "local", "released_representation"),
    ],
    ids=lambda item: f"{item.adjacency}-{item.epsilon:.2g}",
)
def test_json_round_trip_loses_nothing(item):
    assert through_json(item) == item
    assert through_json(item).event == item.event


def test_infinity_is_written_as_a_string():
    document = PrivacyGuarantee.void("x").to_dict()
    assert document["epsilon"] == "inf"


@pytest.mark.parametrize(
    "event",
    [
        dp_event.NoOpDpEvent(),
        dp_event.NonPrivateDpEvent(),
        dp_event.GaussianDpEvent(0.1 + 0.2),
        dp_event.LaplaceDpEvent(2.0),
        dp_event.DiscreteLaplaceDpEvent(0.5, 1),
        dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(1.0), 5),
        dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0)),
        dp_event.ComposedDpEvent((dp_event.GaussianDpEvent(1.0), dp_event.NoOpDpEvent())),
        dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(9.0), 10.0, math.inf),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_are_written_without_loss(event):
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event), allow_nan=False))) == event


def test_unknown_events_are_neither_written_nor_read():
    with pytest.raises(ValueError, match="UnsupportedDpEvent"):
        event_to_dict(dp_event.UnsupportedDpEvent())
    with pytest.raises(ValueError, match="os"):
        event_from_dict({"kind": "os.system", "command": "true"})


def test_a_guarantee_satisfies_what_is_weaker(stated):
    assert stated.satisfies(1.0)
    assert stated.satisfies(1.0, delta=1e-6, adjacency="zero-out", protects="record")
    assert not stated.satisfies(0.999)
    assert not stated.satisfies(1.0, delta=1e-7)


def test_a_guarantee_says_nothing_about_other_relations(stated):
    assert not stated.satisfies(10.0, adjacency="add-remove")
    assert not stated.satisfies(10.0, protects="sensitive_features")


@pytest.mark.parametrize(
    "question",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "adjacency": "add_remove"},
        {"epsilon": 1.0, "protects": "everything"},
    ],
)
def test_unclear_questions_are_refused(stated, question):
    with pytest.raises(ValueError, match=r"not allowed|not known"):
        stated.satisfies(**question)


def test_a_void_guarantee_names_its_reason_and_satisfies_nothing():
    void = PrivacyGuarantee.void("the noise was reproducible")
    assert void.epsilon == math.inf
    assert void.assumptions == ("the noise was reproducible",)
    assert not void.satisfies(math.inf)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"delta": 1.0},
        {"adjacency": "?"},
        {"protects": "?"},
    ],
)
def test_impossible_statements_are_refused(change):
    fields = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "zero-out", "protects": "record"}
    with pytest.raises(ValueError, match=next(iter(change))):
        PrivacyGuarantee(**{**fields, **change})


def test_a_total_below_a_group_is_refused():
    with pytest.raises(ValueError, match="per_group"):
        PrivacyGuarantee(1.0, 1e-6, "zero-out", per_group={"a": 1.5})


def test_a_guarantee_is_immutable(stated):
    with pytest.raises(AttributeError):
        stated.epsilon = 0.1
    with pytest.raises(TypeError):
        stated.per_group["a"] = 0.1


def test_a_guarantee_does_not_compose_for_free_by_default():
    """Without an event nothing is known but epsilon and delta; an empty event would be free."""
    assert PrivacyGuarantee(1.0, 1e-6, "zero-out").event is None


GAUSSIAN = {"kind": "GaussianDpEvent", "noise_multiplier": 1.0}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"kind": "GaussianDpEvent"}, "has the fields"),
        (GAUSSIAN | {"noise_multiplier": "2"}, "a number or 'inf'"),
        (GAUSSIAN | {"noise_multiplier": -1.0}, "noise_multiplier=-1.0"),
        (GAUSSIAN | {"noise_multiplier": True}, "noise_multiplier=True"),
        ({"kind": "SelfComposedDpEvent", "event": GAUSSIAN, "count": 1.5}, "count=1.5"),
        ({"kind": "SelfComposedDpEvent", "event": [GAUSSIAN], "count": 1}, "as an event"),
        ({"kind": "ComposedDpEvent", "events": GAUSSIAN}, "as an event"),
    ],
)
def test_a_document_of_an_impossible_event_is_not_read(document, words):
    with pytest.raises(ValueError, match=words):
        event_from_dict(document)
