"""A budget holds for plans that are chosen by looking at earlier releases."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting.dp_event import (
    ComposedDpEvent,
    DiscreteLaplaceDpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    RepeatAndSelectDpEvent,
    SelfComposedDpEvent,
)
from scipy.special import ndtr

from skfairdp.exceptions import BudgetExceededError
from skfairdp.privacy import PrivacyGuarantee
from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.accounting.events import FailureDpEvent
from skfairdp.privacy.accounting.plan_cost import compose
from skfairdp.privacy.ledger import filter as filter_module
from skfairdp.privacy.ledger.filter import filtered_epsilon
from skfairdp.privacy.ledger.totals import FIXED, Budget, covered, totals
from tests.privacy.ledger.statements import ledger_in, pure, spend, stated

DELTA = 0.01


def gaussian(shift: float, delta: float = DELTA) -> PrivacyGuarantee:
    """A Gaussian release whose means are `shift` deviations apart."""
    event = GaussianDpEvent(1.0 / shift)
    return PrivacyGuarantee(event_epsilon(event, delta), delta, "zero-out", event=event)


def coin(epsilon: float) -> PrivacyGuarantee:
    """One count with discrete Laplace noise: its loss is plus or minus epsilon."""
    event = DiscreteLaplaceDpEvent(epsilon, 1)
    return PrivacyGuarantee(epsilon, 0.0, "zero-out", event=event)


def largest(admits: Callable[[float], bool], high: float) -> float:
    low = 0.0
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if admits(middle) else (low, middle)
    return low


def excess_of_gaussian(epsilon: np.ndarray, shift: float) -> np.ndarray:
    """Expectation of (1 - exp(epsilon - loss))+ over a Gaussian release."""
    if shift == 0.0:
        return np.maximum(1.0 - np.exp(epsilon), 0.0)
    far = ndtr(-shift / 2 - epsilon / shift)
    return ndtr(shift / 2 - epsilon / shift) - np.exp(np.minimum(epsilon, 50.0)) * far


def excess_of_coin(epsilon: np.ndarray, loss: float) -> np.ndarray:
    p = 1.0 / (1.0 + math.exp(-loss))
    up, down = np.exp(epsilon - loss), np.exp(epsilon + loss)
    return p * np.maximum(1.0 - up, 0.0) + (1.0 - p) * np.maximum(1.0 - down, 0.0)


def achieved_by_looking(budget: Budget, charge: Callable[..., None]) -> float:
    """Largest delta of somebody who sees one release, and then takes a coin or a Gaussian."""
    first = gaussian(0.5)

    def admits(new: PrivacyGuarantee) -> bool:
        try:
            charge([first], new)
        except BudgetExceededError:
            return False
        return True

    assert admits(gaussian(1e-3))
    shift = largest(lambda x: admits(gaussian(x)) if x else True, 2.0)
    loss = largest(lambda x: admits(coin(x)) if x else True, 2.0)
    seen = np.linspace(0.125 - 6.0, 0.125 + 6.0, 40_001)  # losses of the first release
    mass = np.exp(-((seen - 0.125) ** 2) / (2 * 0.25))
    left = budget.epsilon - seen
    best = np.maximum(excess_of_gaussian(left, shift), excess_of_coin(left, loss))
    return float((mass * best).sum() / mass.sum())


def test_choosing_by_looking_stays_within_the_budget() -> None:
    budget = Budget(2.0, DELTA, "zero-out", "record")
    assert achieved_by_looking(budget, lambda s, n: budget.refuse(s, [n], "people")) <= DELTA


def test_the_composition_of_losses_would_be_exceeded() -> None:
    budget = Budget(2.0, DELTA, "zero-out", "record")

    def charge(spent: list[PrivacyGuarantee], new: PrivacyGuarantee) -> None:
        if compose([*spent, new], delta=DELTA).epsilon > budget.epsilon:
            raise BudgetExceededError

    assert achieved_by_looking(budget, charge) > 1.05 * DELTA


def test_the_first_release_may_take_the_whole_budget(tmp_path) -> None:
    ledger = ledger_in(tmp_path, budget=(stated().epsilon, 1e-5))
    spend(ledger, stated())
    with pytest.raises(BudgetExceededError):
        spend(ledger, pure(1e-3))


def test_pure_releases_add_up_to_the_budget_exactly() -> None:
    assert filtered_epsilon([pure(0.5), coin(0.5), coin(1.0)], 2.0, 0.0, "zero-out") == 2.0


@pytest.mark.parametrize("adjacency", ["add-remove", "zero-out", "replace-one", "local"])
def test_deltas_of_statements_without_an_event_are_added(adjacency) -> None:
    parts = [PrivacyGuarantee(0.5, 1e-6, adjacency) for _ in range(4)]
    assert filtered_epsilon(parts, 3.0, 8e-6, adjacency) <= 2.0
    assert filtered_epsilon(parts, 3.0, 4e-6, adjacency) == math.inf


def test_a_first_statement_without_an_event_may_take_all_of_delta() -> None:
    assert filtered_epsilon([pure(1.0, 1e-6), pure(1.0)], 2.5, 1e-6, "zero-out") == 2.0
    assert filtered_epsilon([pure(1.0), pure(1.0, 1e-6)], 2.5, 1e-6, "zero-out") == math.inf


@pytest.mark.parametrize("times", [2, 5, 20])
def test_the_filter_charges_a_little_more_than_the_composition(times) -> None:
    parts = [stated()] * times
    total = compose(parts, delta=1e-5).epsilon
    assert total < filtered_epsilon(parts, 1.2 * total, 1e-5, "zero-out") < 1.3 * total


def test_a_changed_attribute_is_charged_in_both_directions() -> None:
    step = SelfComposedDpEvent(PoissonSampledDpEvent(0.02, GaussianDpEvent(2.0)), 100)
    cost = event_epsilon(step, 1e-5, "change-attribute")
    one = PrivacyGuarantee(cost, 1e-5, "change-attribute", "sensitive_features", event=step)
    total = compose([one, one], delta=1e-5).epsilon
    assert total < filtered_epsilon([one, one], 1.0, 1e-5, "change-attribute") < 1.3 * total


def test_searches_are_charged_by_their_own_divergences() -> None:
    step = SelfComposedDpEvent(PoissonSampledDpEvent(0.02, GaussianDpEvent(4.0)), 100)
    event = RepeatAndSelectDpEvent(step, 10.0, 1.0)
    one = PrivacyGuarantee(event_epsilon(event, 1e-5), 1e-5, "zero-out", event=event)
    total = compose([one, one], delta=1e-5).epsilon
    assert total < filtered_epsilon([one, one], 1.2 * total, 1e-5, "zero-out") < 1.4 * total


def test_releases_without_known_divergences_are_charged_as_stated() -> None:
    step = SelfComposedDpEvent(PoissonSampledDpEvent(0.02, GaussianDpEvent(4.0)), 100)
    cost = event_epsilon(step, 1e-6, "replace-one")
    one = PrivacyGuarantee(cost, 1e-6, "replace-one", event=step)
    assert filtered_epsilon([one, one], 3.0, 1e-5, "replace-one") <= 2 * cost
    assert filtered_epsilon([one, one], 3.0, 3e-6, "replace-one") == math.inf


def test_a_total_says_when_it_holds_and_a_budget_that_it_holds(tmp_path) -> None:
    ledger = ledger_in(tmp_path, budget=(3.0, 1e-5))
    spend(ledger, stated())
    assert FIXED not in ledger.summary()  # one charge is not a choice
    spend(ledger, stated(3.0))
    assert FIXED in ledger.totals()[0].assumptions
    for text in (ledger.summary(), ledger._repr_html_()):
        assert FIXED in text
        assert "kept also where a plan was chosen by looking at earlier releases" in text
    assert FIXED in totals([stated(), stated()])[0].assumptions


def test_orders_and_statements_without_an_event_share_one_delta(monkeypatch) -> None:
    spent, keep = [], filter_module.compute_epsilon

    def watched(orders, curve, share):
        spent.append(len(orders) * share)
        return keep(orders, curve, share)

    monkeypatch.setattr(filter_module, "compute_epsilon", watched)
    plain = PrivacyGuarantee(0.1, DELTA / 2, "zero-out")
    filtered_epsilon([gaussian(0.3), gaussian(0.3), plain], 2.0, DELTA, "zero-out")
    assert len(spent) == 1
    assert spent[0] + plain.delta <= DELTA * (1.0 + 1e-12)


@pytest.mark.parametrize(("failure", "finite"), [(9e-8, True), (1.1e-7, False)])
def test_what_may_fail_has_a_share_of_delta_that_was_fixed_before(failure, finite) -> None:
    step = ComposedDpEvent([GaussianDpEvent(20.0), FailureDpEvent(failure)])
    one = PrivacyGuarantee(1.0, 1e-6, "zero-out", event=step)
    assert math.isfinite(filtered_epsilon([one] * 5, 2.0, 1e-6, "zero-out")) == finite


@pytest.mark.parametrize("plain", [0.0, 4e-7, 6e-7])
def test_failures_and_deltas_share_what_is_set_aside(plain) -> None:
    event = ComposedDpEvent([GaussianDpEvent(20.0), FailureDpEvent(2e-7)])
    fails, states = PrivacyGuarantee(1.0, 1e-6, "zero-out", event=event), pure(0.1, plain)
    finite = [
        math.isfinite(filtered_epsilon(parts, 2.0, 1e-6, "zero-out"))
        for parts in ([fails, states], [states, fails])
    ]
    assert finite == [plain == 0.0] * 2


@pytest.mark.parametrize("first", ["table", "model"])
def test_a_table_and_a_model_share_a_budget_in_either_order(tmp_path, first) -> None:
    texts = FailureDpEvent(5e-8)
    table = ComposedDpEvent([SelfComposedDpEvent(GaussianDpEvent(40.0), 3), texts])
    cost = event_epsilon(table, 1e-7, "add-remove")
    counted = PrivacyGuarantee(cost, 1e-7, "add-remove", event=table)
    both = [counted, stated()] if first == "table" else [stated(), counted]
    ledger = ledger_in(tmp_path, budget=(0.3, 1e-5), adjacency="zero-out")
    for one in both:
        spend(ledger, one)
    (total,) = ledger.totals(delta=1e-5)
    # At least the composed figure, which is about blanked records, and little more.
    charged = filtered_epsilon(covered(both, "zero-out", "record"), 0.3, 1e-5, "zero-out")
    assert (total.adjacency, total.epsilon < charged < 1.4 * total.epsilon) == ("zero-out", True)
