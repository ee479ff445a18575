"""Totals of a ledger are compositions, checked against an independent integral."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from skfairdp.exceptions import BudgetExceededError
from skfairdp.privacy import CountRelease, PrivacyGuarantee, PrivacyLedger
from skfairdp.privacy.guarantee import PrivacyGuarantee as Stated
from skfairdp.privacy.ledger import Entry
from tests.privacy.ledger.statements import VOID, ledger_in, plan, pure, spend, stated
from tests.privacy.oracle import oracle_epsilon


def test_total_of_equal_and_of_different_fits_agrees_with_the_oracle(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, stated(4.0), stated(3.0), stated(4.0))
    (total,) = ledger.totals()
    whole = dataclasses.replace(
        plan(4.0), segments=(*plan(4.0, steps=200).segments, *plan(3.0).segments)
    )
    assert total.epsilon == pytest.approx(oracle_epsilon(whole, 1e-5), rel=0.01)
    assert total.epsilon < 2 * stated(4.0).epsilon + stated(3.0).epsilon  # no sum of epsilons


def test_tables_of_counts_are_part_of_the_composition(tmp_path) -> None:
    counted = dataclasses.replace(plan(4.0), counts=(CountRelease(name="table", epsilon=0.2),))
    table = PrivacyGuarantee.from_dict(stated().to_dict())
    ledger = ledger_in(tmp_path)
    from dp_accounting.dp_event import DiscreteLaplaceDpEvent

    counts = Stated(0.2, 0.0, "zero-out", event=DiscreteLaplaceDpEvent(0.2, 1))
    spend(ledger, table, counts)
    assert ledger.totals()[0].epsilon == pytest.approx(oracle_epsilon(counted, 1e-5), rel=0.01)


def test_statements_without_an_event_are_composed_as_pure_ones(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, pure(0.5, 1e-6), pure(0.5, 1e-6))
    (total,) = ledger.totals()
    assert total.delta == 2e-6
    assert 0.9 < total.epsilon <= 1.0
    spend(ledger, stated())
    assert ledger.totals()[0].delta == pytest.approx(1e-5 + 2e-6)


def test_a_reservation_is_charged_like_a_committed_entry(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, stated())
    ledger.reserve(stated(), activity="fit", estimator="Test")
    assert len(ledger) == 1
    assert [entry.state for entry in ledger.entries()] == ["committed", "reserved"]
    assert ledger.totals()[0].epsilon == pytest.approx(
        oracle_epsilon(plan(steps=200), 1e-5), rel=0.01
    )


def test_a_block_that_fails_stays_charged_and_uncommitted(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    with (
        pytest.raises(RuntimeError, match="crash"),
        ledger.charge(stated(), activity="fit", estimator="Test"),
    ):
        raise RuntimeError("crash")
    assert len(ledger) == 0
    assert ledger.totals()[0].epsilon == stated().epsilon


ATTRIBUTE = Stated(0.7, 1e-6, "change-attribute", "sensitive_features")
LOCAL = Stated(0.5, 0.0, "local", "released_representation")


def test_totals_stand_side_by_side_and_each_counts_everything(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, stated(), ATTRIBUTE, ATTRIBUTE)
    record, sensitive = ledger.totals()
    assert (record.protects, record.adjacency) == ("record", "zero-out")
    assert (sensitive.protects, sensitive.adjacency) == ("sensitive_features", "change-attribute")
    # Who protects the attribute alone shows the rest of the record, and who blanks a record
    # leaves it in its group.
    assert record.is_void
    assert sensitive.is_void
    text = ledger.summary()
    assert "total, record under zero-out: ε = ∞ (composition of 3 charges)" in text
    assert "∞ because of entries 2 (Test), 3 (Test): what protects the sensitive attribute" in text
    assert "∞ because of entry 1 (Test): what protects everything about one" in text


def test_an_attribute_is_covered_by_removal_and_addition(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    removed = stated(adjacency="add-remove")
    spend(ledger, ATTRIBUTE, removed)
    sensitive, record = ledger.totals()
    assert record.is_void
    delta = 1e-6 + removed.delta * (1.0 + math.exp(removed.epsilon))
    assert sensitive.delta == pytest.approx(delta)
    # No smaller than twice the other's epsilon, which the composition of both contains.
    assert 2 * removed.epsilon < sensitive.epsilon <= 0.7 + 2 * removed.epsilon
    hopeless = Stated(20.0, 1e-5, "add-remove")
    spend(ledger, hopeless)  # e^20 * 1e-5 is no probability
    assert all(total.is_void for total in ledger.totals())


def test_a_release_by_its_owner_bounds_what_it_shows_of_a_record(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, stated(), LOCAL)
    record, local = ledger.totals()
    assert record.delta == stated().delta
    assert stated().epsilon < record.epsilon <= stated().epsilon + 0.5
    assert local.is_void  # a blanked record stays in its group, and another one need not
    other = ledger.on("declared")
    spend(other, stated(adjacency="add-remove"), LOCAL)
    record, local = other.totals()
    assert record.is_void  # how many rows were released is shown
    assert 2 * stated().epsilon < local.epsilon <= 2 * stated().epsilon + 0.5


def test_a_budget_is_lost_to_an_entry_that_bounds_nothing_in_its_relation(tmp_path) -> None:
    spend(ledger_in(tmp_path), ATTRIBUTE)
    limited = ledger_in(tmp_path, budget=(9.0, 1e-5), adjacency="zero-out")
    with pytest.raises(BudgetExceededError, match="different relations have no total"):
        spend(limited, stated())
    assert len(limited.entries()) == 1


def test_removal_implies_blanking_and_a_mixture_promises_no_more_than_that(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, stated(adjacency="add-remove"))
    assert [total.adjacency for total in ledger.totals()] == ["add-remove"]
    spend(ledger, stated())
    (blanked,) = ledger.totals()
    assert blanked.adjacency == "zero-out"
    assert blanked.epsilon == pytest.approx(oracle_epsilon(plan(steps=200), 1e-5), rel=0.01)


def test_a_fit_without_noise_makes_every_total_infinite(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, VOID)
    assert [total.epsilon for total in ledger.totals()] == [math.inf]
    spend(ledger, stated(), Stated(0.7, 1e-6, "change-attribute", "sensitive_features"))
    assert [total.epsilon for total in ledger.totals()] == [math.inf, math.inf]
    assert "ε = ∞" in ledger.summary()


def test_entries_that_touch_no_protected_row_cost_nothing(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, None)
    assert ledger.totals() == ()
    assert "nothing was spent" in ledger.summary()


def test_data_sets_of_one_file_are_apart(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    spend(ledger, stated())
    other = ledger.on("others")
    assert len(other) == 0
    spend(other, stated(3.0))
    assert ledger.data_sets == ("others", "people")
    assert ledger.totals()[0].epsilon == stated().epsilon


def test_a_budget_admits_what_fits_the_composition_and_nothing_more(tmp_path) -> None:
    # What holds for plans chosen by looking costs up to a fifth more than the composition.
    two = oracle_epsilon(plan(steps=200), 1e-5)
    ledger = ledger_in(tmp_path, budget=(1.25 * two, 1e-5))
    spend(ledger, stated(), stated())
    with pytest.raises(BudgetExceededError, match=r"total of epsilon = .* Nothing was released"):
        spend(ledger, stated())
    assert len(ledger.entries()) == 2


def test_a_budget_binds_handles_that_do_not_name_it(tmp_path) -> None:
    ledger = ledger_in(tmp_path, budget=(stated().epsilon, 1e-5))
    spend(ledger, stated())
    plain = ledger_in(tmp_path)
    assert plain.budget == (stated().epsilon, 1e-5)
    with pytest.raises(BudgetExceededError):
        spend(plain, stated())


def test_a_budget_counts_reservations_and_deltas_set_aside(tmp_path) -> None:
    ledger = ledger_in(tmp_path, budget=(2.5, 1e-6))
    ledger.reserve(pure(1.0, 1e-6), activity="fit", estimator="Test")
    with pytest.raises(BudgetExceededError, match="too little delta left.* states delta = 1e-6"):
        spend(ledger, pure(1.0, 1e-6))  # the deltas alone are twice the budget's
    spend(ledger, pure(1.0))


def test_a_budget_counts_what_was_spent_before_it_was_set(tmp_path) -> None:
    spend(ledger_in(tmp_path), stated())
    with pytest.raises(BudgetExceededError):
        spend(ledger_in(tmp_path, budget=(stated().epsilon, 1e-5)), stated())


def test_a_budget_has_no_room_for_a_fit_without_noise(tmp_path) -> None:
    ledger = ledger_in(tmp_path, budget=(10.0, 1e-5))
    with pytest.raises(BudgetExceededError, match="no noise was added"):
        spend(ledger, VOID)
    assert ledger.entries() == ()


def test_a_budget_refuses_other_relations(tmp_path) -> None:
    ledger = ledger_in(tmp_path, budget=(10.0, 1e-5), adjacency="add-remove")
    with pytest.raises(BudgetExceededError, match="different relations have no total"):
        spend(ledger, stated())
    spend(ledger, stated(adjacency="add-remove"))
    attribute = Stated(0.1, 1e-6, "change-attribute", "sensitive_features")
    with pytest.raises(BudgetExceededError, match="protects 'sensitive_features'"):
        spend(ledger, attribute)


def test_a_budget_of_blanked_records_takes_removals_too(tmp_path) -> None:
    two = oracle_epsilon(plan(steps=200), 1e-5)
    ledger = ledger_in(tmp_path, budget=(1.25 * two, 1e-5))
    spend(ledger, stated(), stated(adjacency="add-remove"))
    with pytest.raises(BudgetExceededError):
        spend(ledger, stated(adjacency="add-remove"))


@pytest.mark.parametrize("budget", ["10", {2.0, 1e-6}, ("1", "1e-6"), (True, 0.0), (10**400, 0)])
def test_a_budget_is_a_pair_of_numbers(tmp_path, budget) -> None:
    """ "10" was a budget of epsilon 1, a set one in either order."""
    with pytest.raises(ValueError, match=r"'budget' must be a pair \(epsilon, delta\) of numbers"):
        PrivacyLedger(tmp_path / "l.db", budget=budget)


def test_a_budget_is_fixed_once(tmp_path) -> None:
    spend(ledger_in(tmp_path, budget=(1.0, 1e-5)), stated())
    with pytest.raises(ValueError, match="A budget is fixed once"):
        spend(ledger_in(tmp_path, budget=(2.0, 1e-5)), stated())
    with pytest.raises(ValueError, match="A budget is fixed once"):
        spend(ledger_in(tmp_path, budget=(1.0, 1e-5), adjacency="add-remove"), stated())


def test_json_holds_events_that_can_be_composed_again(tmp_path) -> None:
    ledger = ledger_in(tmp_path, budget=(9.0, 1e-5))
    spend(ledger, stated(), None)
    spend(ledger_in(tmp_path, "void"), VOID)
    document = json.loads(ledger.to_json())
    assert document["format"] == "skfairdp ledger 2"
    assert document["committed"] == 2
    entries = tuple(Entry.from_dict(entry) for entry in document["entries"])
    assert entries == ledger.entries()
    assert entries[0].guarantee == stated()
    assert json.loads(ledger_in(tmp_path, "void").to_json())["totals"][0]["epsilon"] == "inf"


def test_table_text_and_page_name_every_entry(tmp_path) -> None:
    ledger = ledger_in(tmp_path, "<people>")
    spend(ledger, stated(), VOID, None)
    frame = ledger.to_frame()
    assert frame["epsilon"].tolist()[:2] == [stated().epsilon, math.inf]
    assert math.isnan(frame["epsilon"][2])
    text, page = ledger.summary(), ledger._repr_html_()
    for shown in ("fit 1", "fit 2", "fit 3", "no guarantee", "no protected row"):
        assert shown in text
        assert shown in page
    assert "&lt;people&gt;" in page
    assert "<people>" not in page
