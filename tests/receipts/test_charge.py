"""Charges: entered once, before rows are used, and committed at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from skfairdp import DPSGDClassifier, FairDPClassifier, PrivacyLedger
from skfairdp.exceptions import BudgetExceededError
from skfairdp.privacy import PrivacyGuarantee
from skfairdp.receipts import Charge

HALF, ONE = (PrivacyGuarantee(epsilon, 0.0, "zero-out") for epsilon in (0.5, 1.0))


def ledger_in(folder: Path, name: str = "spent.db", budget: float = 9.0) -> PrivacyLedger:
    return PrivacyLedger(folder / name, "people", budget=(budget, 1e-5))


def states(ledger: PrivacyLedger) -> list[tuple[str, str, float]]:
    return [(e.estimator, e.state, e.guarantee.epsilon) for e in ledger.entries() if e.guarantee]


def test_the_first_call_counts_and_is_committed(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    charge = Charge(DPSGDClassifier(ledger=ledger))
    charge(HALF)
    charge(ONE)
    assert states(ledger) == [("DPSGDClassifier", "reserved", 0.5)]
    entry = charge.commit()
    assert entry is not None
    assert (entry.number, entry.state) == (1, "committed")


def test_a_fit_that_charges_nothing_fails_unless_it_says_so(tmp_path: Path) -> None:
    model = DPSGDClassifier(ledger=ledger_in(tmp_path))
    with pytest.raises(RuntimeError, match="charged nothing"):
        Charge(model).commit()
    charge = Charge(model)
    charge.nothing_here()
    charge(ONE)
    assert charge.commit() is None
    assert Charge(DPSGDClassifier()).commit() is None


def test_what_is_given_back_is_not_charged(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    charge = Charge(DPSGDClassifier(ledger=ledger))
    charge.give_back()  # nothing yet
    charge(ONE)
    charge.give_back()
    assert states(ledger) == [("DPSGDClassifier", "returned", 1.0)]
    assert ledger.totals() == ()


def test_a_wrapper_is_charged_for_what_it_states_in_its_own_name(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    outer = Charge(FairDPClassifier(ledger=ledger))
    inner = Charge(DPSGDClassifier(), within=outer, stated=ONE)
    inner(HALF)
    assert inner.commit() is None
    assert states(ledger) == [("FairDPClassifier", "reserved", 1.0)]
    outer.commit()
    assert states(ledger) == [("FairDPClassifier", "committed", 1.0)]


def test_an_error_says_what_counts_as_spent(tmp_path: Path) -> None:
    for model, said in (
        (DPSGDClassifier(ledger=ledger_in(tmp_path)), "Entry 1 of the privacy ledger"),
        (DPSGDClassifier(), "Count ε = 1 as spent"),
    ):
        early, late = ValueError(), ValueError()
        charge = Charge(model)
        charge.note(early)
        charge(ONE)
        charge.note(late)
        assert not hasattr(early, "__notes__")
        (note,) = late.__notes__
        assert note.startswith(said)


def test_two_charges_of_one_ledger_are_entered_at_once_or_not_at_all(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    first = Charge(DPSGDClassifier(ledger=ledger))
    second = Charge(FairDPClassifier(ledger=ledger), stated=ONE)
    first.together_with(second)
    first(HALF)
    both = [("DPSGDClassifier", "reserved", 0.5), ("FairDPClassifier", "reserved", 1.0)]
    assert states(ledger) == both
    second(ONE)
    assert states(ledger) == both
    poor = ledger_in(tmp_path, "poor.db", budget=1.2)
    first = Charge(DPSGDClassifier(ledger=poor))
    first.together_with(Charge(FairDPClassifier(ledger=poor), stated=ONE))
    with pytest.raises(BudgetExceededError):
        first(HALF)
    assert states(poor) == []
