"""Tests of both accountants inside dp_accounting, run on `epsilon`."""

from __future__ import annotations

import unittest
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant, pld_privacy_accountant_test
from dp_accounting.rdp import rdp_privacy_accountant, rdp_privacy_accountant_test

from skfairdp.privacy import epsilon
from skfairdp.privacy.relations import NEIGHBOURS

RELATIONS = {record.accounted: name for name, record in NEIGHBOURS.items() if not record.two_cells}

_ALL_OF_DELTA = "delta=1 promises nothing, and is refused by name here"
_NO_PROMISE = dict.fromkeys(
    ("test_no_events", "test_no_op", *(f"test_non_private{number}" for number in range(4))),
    _ALL_OF_DELTA,
)
_ROUNDED_UP = (
    "losses are rounded up to a grid here, and theirs is exact in the limit of large orders: the "
    "figure here is above by at most .042"
)


@dataclass(frozen=True)
class Reference:
    """An accountant of theirs, its tests, and those that fail on `epsilon`, with the reason."""

    module: ModuleType
    accountant: str
    cases: type[unittest.TestCase]
    differences: dict[str, str]


REFERENCES = {
    "loss distributions": Reference(
        pld_privacy_accountant,
        "PLDAccountant",
        pld_privacy_accountant_test.PldPrivacyAccountantTest,
        {
            "test_additive_noise_mechanisms_with_zero_noise_multiplier2": (
                "discrete Laplace noise with parameter 0 is the limit of unlimited noise and costs "
                "0 here; their accountant calls it not private"
            ),
            "test_discrete_laplace_basic": (
                "4.0005 for 4 at a delta of 0: losses are rounded up to the grid, so the figure is "
                "above"
            ),
            **dict.fromkeys(
                ("test_mixture_of_gaussians_basic", "test_truncated_subsampled_gaussian_basic"),
                "17.295 for 17.193, 18.625 for 17.904: the larger delta of both directions is "
                "charged in each event, as the order of two such releases is not told",
            ),
            **_NO_PROMISE,
        },
    ),
    "Rényi divergences": Reference(
        rdp_privacy_accountant,
        "RdpAccountant",
        rdp_privacy_accountant_test.RdpPrivacyAccountantTest,
        {
            "test_epsilon_delta_consistency": (
                "asks their accountant for its delta at the epsilon printed here, which is smaller"
            ),
            "test_laplace_repetition": (
                "81.6 for 100: a loss distribution is tight at a delta above 0, theirs adds up 100 "
                "pure costs of 1"
            ),
            **dict.fromkeys(
                (
                    "test_repeat_select_pure_negative_binomial_geometric",
                    "test_repeat_select_pure_negative_binomial_logarithmic",
                    "test_repeat_select_pure_negative_binomial_negative binomial 0.5",
                    "test_repeat_select_pure_negative_binomial_negative binomial 2",
                    "test_repeat_select_pure_negative_binomial_negative binomial 5",
                ),
                _ROUNDED_UP,
            ),
            **_NO_PROMISE,
        },
    ),
}


def printed(theirs: type, share: float = 1.0) -> type:
    """Their accountant, with a share of the epsilon that is printed here."""

    class Printed(theirs):  # type: ignore[misc]
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(*args, **settings)
            self.released: list[dp_event.DpEvent] = []

        def compose(self, event: dp_event.DpEvent, count: int = 1) -> Any:
            self.released.append(dp_event.SelfComposedDpEvent(event, count))
            return super().compose(event, count)

        def get_epsilon(self, target_delta: float) -> float:
            whole = dp_event.ComposedDpEvent(self.released)
            return share * epsilon(whole, target_delta, RELATIONS[self.neighboring_relation])

    return Printed


def failures(monkeypatch, name: str, words: str = "", *, share: float = 1.0) -> set[str]:
    """Names of their tests that fail with another accountant in place of theirs."""
    reference = REFERENCES[name]
    theirs = getattr(reference.module, reference.accountant)
    monkeypatch.setattr(reference.module, reference.accountant, printed(theirs, share))
    loaded = unittest.defaultTestLoader.loadTestsFromTestCase(reference.cases)
    suite = unittest.TestSuite(case for case in loaded if words in case.id())
    assert suite.countTestCases() > 0
    result = suite.run(unittest.TestResult())
    return {case._testMethodName for case, _ in (*result.failures, *result.errors)}


@pytest.mark.campaign
@pytest.mark.parametrize("name", REFERENCES)
def test_their_tests_pass_but_for_differences_that_are_explained(monkeypatch, name):
    assert failures(monkeypatch, name) == set(REFERENCES[name].differences)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("event", "relation", "theirs"),
    [
        (
            dp_event.ComposedDpEvent(
                [
                    dp_event.SelfComposedDpEvent(
                        dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0, 2.0], [0.2, 0.6, 0.2]), 3
                    ),
                    dp_event.SelfComposedDpEvent(
                        dp_event.MixtureOfGaussiansDpEvent(
                            2.0, [0.0, 2.0, 3.0], [0.33, 0.34, 0.33]
                        ),
                        2,
                    ),
                ]
            ),
            "add-remove",
            17.193115,
        ),
        (
            dp_event.ComposedDpEvent(
                [
                    dp_event.SelfComposedDpEvent(
                        dp_event.TruncatedSubsampledGaussianDpEvent(4, 0.5, 2, 1.0), 3
                    ),
                    dp_event.SelfComposedDpEvent(
                        dp_event.TruncatedSubsampledGaussianDpEvent(3, 0.5, 2, 1.0), 2
                    ),
                ]
            ),
            "replace-one",
            17.904330,
        ),
    ],
    ids=["mixtures", "truncated batches"],
)
def test_figures_of_two_directions_are_above_theirs(event, relation, theirs):
    assert theirs <= epsilon(event, 1e-6, relation) < 1.05 * theirs


@pytest.mark.slow
@pytest.mark.parametrize("words", ["test_gaussian_basic", "laplace_basic", "randomized_response"])
def test_their_quick_tests_pass(monkeypatch, words):
    found = failures(monkeypatch, "loss distributions", words)
    assert found <= set(REFERENCES["loss distributions"].differences)


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCES)
def test_half_the_figure_is_caught_by_their_tests(monkeypatch, name):
    words = {"loss distributions": "test_laplace_basic", "Rényi divergences": "test_laplace"}[name]
    found = failures(monkeypatch, name, words, share=0.5)
    assert found - set(REFERENCES[name].differences)
