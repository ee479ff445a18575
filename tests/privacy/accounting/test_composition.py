"""Composition where accountants say little: pure statements, and relations they don't know."""

from __future__ import annotations

import dataclasses
import math

import pytest
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, GaussianDpEvent

from skfairdp.privacy import PrivacyGuarantee, compose, epsilon

PURE = PrivacyGuarantee(0.3, 0.0, "zero-out", event=DiscreteLaplaceDpEvent(0.3, 1))
STATED = PrivacyGuarantee(0.3, 1e-7, "zero-out")
ATTRIBUTE = PrivacyGuarantee(
    0.5, 1e-7, "change-attribute", "sensitive_features", event=GaussianDpEvent(9.0)
)
NOISY = PrivacyGuarantee(
    epsilon(GaussianDpEvent(5.0), 1e-6, "zero-out"), 1e-6, "zero-out", event=GaussianDpEvent(5.0)
)


@pytest.mark.parametrize("count", [2, 8, 20, 50])
@pytest.mark.parametrize("item", [PURE, STATED])
def test_without_a_delta_pure_releases_add_up_and_stay_finite(item, count) -> None:
    total = compose([item] * count)
    assert total.epsilon == pytest.approx(0.3 * count)
    assert total.epsilon <= 0.3 * count * (1 + 1e-9)
    assert total.delta == pytest.approx(item.delta * count)


def test_with_a_delta_they_compose_to_less() -> None:
    assert compose([PURE] * 50, delta=1e-6).epsilon < 0.75 * 15.0
    assert compose([STATED] * 50, delta=5e-6 + 1e-6).epsilon < 0.75 * 15.0


def test_a_mixture_is_at_most_its_parts_added() -> None:
    total = compose([NOISY, STATED, STATED])
    assert total.delta == pytest.approx(1e-6 + 2e-7)
    assert NOISY.epsilon < total.epsilon <= NOISY.epsilon + 0.6


def test_statements_of_a_relation_that_no_accountant_knows_compose() -> None:
    local = dataclasses.replace(ATTRIBUTE, adjacency="local")
    total = compose([local] * 3)
    assert (total.adjacency, total.protects) == ("local", "sensitive_features")
    assert total.epsilon == pytest.approx(1.5)  # their events are not read under another relation
    assert total.delta == pytest.approx(3e-7)
    void = dataclasses.replace(local, epsilon=math.inf)
    assert compose([local, void]).is_void


def test_events_about_a_changed_attribute_are_read_in_both_groups() -> None:
    total = compose([ATTRIBUTE] * 3)
    assert (total.adjacency, total.protects) == ("change-attribute", "sensitive_features")
    # Three releases, each seen in the group that is left and in the one that is joined.
    once = epsilon(GaussianDpEvent(9.0 / math.sqrt(6.0)), 1e-7, "add-remove")
    assert total.epsilon == pytest.approx(once, rel=1e-3)
    assert (total.delta, total.event is None) == (1e-7, False)


def test_a_promise_about_a_changed_attribute_is_added_to_events() -> None:
    promise = dataclasses.replace(ATTRIBUTE, event=None)
    total = compose([ATTRIBUTE, ATTRIBUTE, promise])
    events = compose([ATTRIBUTE, ATTRIBUTE])
    assert total.epsilon == pytest.approx(events.epsilon + 0.5)
    assert (total.delta, total.event) == (pytest.approx(2e-7), None)
    assert compose([promise] * 3).epsilon == pytest.approx(1.5)
