"""Tests of the accountant of loss distributions inside dp_accounting, run on `epsilon`."""

from __future__ import annotations

import unittest
from typing import Any

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant, pld_privacy_accountant, pld_privacy_accountant_test

from skfairdp.privacy import epsilon
from skfairdp.privacy.relations import NEIGHBOURS

RELATIONS = {record.accounted: name for name, record in NEIGHBOURS.items() if not record.two_cells}

# Their tests that fail here, with the reason.
_ALL_OF_DELTA = "delta=1 promises nothing, and is refused by name here"
DIFFERENCES = {
    "test_additive_noise_mechanisms_with_zero_noise_multiplier2": (
        "discrete Laplace noise with parameter 0 is the limit of unlimited noise and costs 0 here; "
        "their accountant calls it not private"
    ),
    "test_discrete_laplace_basic": (
        "4.0005 for 4 at a delta of 0: losses are rounded up to the grid, so the figure is above"
    ),
    "test_no_events": _ALL_OF_DELTA,
    "test_no_op": _ALL_OF_DELTA,
    "test_non_private0": _ALL_OF_DELTA,
    "test_non_private1": _ALL_OF_DELTA,
    "test_non_private2": _ALL_OF_DELTA,
    "test_non_private3": _ALL_OF_DELTA,
}

# A figure of these takes minutes, so they are left out.
LEFT_OUT = ("mixture_of_gaussians_basic", "truncated_subsampled_gaussian_basic")


class Printed(PLDAccountant):
    """Their accountant, whose epsilon is the one printed here."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.released: list[dp_event.DpEvent] = []

    def compose(self, event: dp_event.DpEvent, count: int = 1) -> Any:
        self.released.append(dp_event.SelfComposedDpEvent(event, count))
        return super().compose(event, count)

    def get_epsilon(self, target_delta: float) -> float:
        whole = dp_event.ComposedDpEvent(self.released)
        return epsilon(whole, target_delta, RELATIONS[self.neighboring_relation])


class Halved(Printed):
    """A twin that prints half of it."""

    def get_epsilon(self, target_delta: float) -> float:
        return super().get_epsilon(target_delta) / 2.0


def failures(monkeypatch, accountant: type, words: str = "") -> set[str]:
    """Names of their tests that fail with another accountant in place of theirs."""
    monkeypatch.setattr(pld_privacy_accountant, "PLDAccountant", accountant)
    loaded = unittest.defaultTestLoader.loadTestsFromTestCase(
        pld_privacy_accountant_test.PldPrivacyAccountantTest
    )
    suite = unittest.TestSuite(
        case for case in loaded if words in case.id() and not any(n in case.id() for n in LEFT_OUT)
    )
    assert suite.countTestCases() > 0
    result = suite.run(unittest.TestResult())
    return {case._testMethodName for case, _ in (*result.failures, *result.errors)}


@pytest.mark.campaign
def test_their_tests_pass_but_for_differences_that_are_explained(monkeypatch):
    assert failures(monkeypatch, Printed) == set(DIFFERENCES)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["gaussian_basic", "laplace_basic", "randomized_response"])
def test_their_quick_tests_pass(monkeypatch, words):
    if words == "gaussian_basic":
        words = "test_gaussian_basic"
    assert failures(monkeypatch, Printed, words) <= set(DIFFERENCES)


@pytest.mark.slow
def test_half_the_figure_is_caught_by_their_tests(monkeypatch):
    assert "test_laplace_basic" in failures(monkeypatch, Halved, "test_laplace_basic")
