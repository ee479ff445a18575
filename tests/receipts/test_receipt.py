"""Charges are entered once, and receipts say what a fit left."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skfairdp import (
    DPSGDClassifier,
    FairDPClassifier,
    FairPathClassifier,
    PrivacyLedger,
    certify,
)
from skfairdp.exceptions import BudgetExceededError, UnboundModelError
from skfairdp.privacy import PrivacyGuarantee
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from tests.common.roster import EVERY, build, each, people

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


FAST: dict[str, Any] = {"max_epochs": 1, "progress": False}
DECLARED = {"a": 190, "b": 110}  # of 200 and 100 rows


def numbers_in(value: Any) -> Iterator[int]:
    """Whole numbers that a value holds, at any depth."""
    if isinstance(value, int | np.integer):
        yield int(value)
    elif isinstance(value, np.ndarray):
        yield from map(int, value.ravel()) if value.dtype.kind in "iu" else ()
    elif isinstance(value, dict):
        for item in value.items():
            yield from numbers_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from numbers_in(item)
    elif is_dataclass(value):
        for each_field in fields(value):
            yield from numbers_in(getattr(value, each_field.name))


@each(EVERY)
def test_every_fit_leaves_a_receipt_that_survives_pickling(name: str) -> None:
    X, y, groups = people()
    model = build(name).fit(X, y, sensitive_features=groups)
    again = pickle.loads(pickle.dumps(model))
    assert again.receipt_.digests == model.receipt_.digests
    assert again._changed_since_fit() == ()
    quote = model.receipt_.quote
    if quote is not None:
        assert quote.facts is None
        assert again.receipt_.quote.privacy == quote.privacy
        assert again.receipt_.quote.plan == quote.plan


@pytest.mark.parametrize("settings", [{"group_sizes": DECLARED}, {"group_sizes_epsilon": 0.2}])
def test_a_receipt_knows_no_private_number_of_rows(settings: dict[str, Any]) -> None:
    X, y, groups = people(2029)
    exact = {len(X), *(int((groups == label).sum()) for label in "ab")}
    model = FairDPClassifier(**FAST, **settings).fit(X, y, sensitive_features=groups)
    assert exact.isdisjoint(numbers_in(model.receipt_))
    assert not any(str(number) in str(model.receipt_.quote) for number in exact)


def test_facts_of_rows_that_were_kept_would_be_found() -> None:
    assert [*numbers_in(RowFacts(2029, None))].count(2029) == 1
    kept = Receipt(Quote("DPSGDClassifier", RowFacts(2029), None, note="2029 rows"))
    assert 2029 not in numbers_in(kept)


def test_a_receipt_names_the_entry_in_the_ledger(tmp_path: Any) -> None:
    X, y, _ = people()
    ledger = PrivacyLedger(tmp_path / "spent.db", "people")
    for number in (1, 2):
        model = DPSGDClassifier(ledger=ledger, **FAST).fit(X, y)
        assert model.receipt_.entry == ("people", number)
    assert DPSGDClassifier(**FAST).fit(X, y).receipt_.entry is None


def test_attributes_are_views_of_the_receipt() -> None:
    X, y, groups = people()
    model = DPSGDClassifier(**FAST)
    for name in ("privacy_", "plan_", "groups_", "noise_multiplier_"):
        assert not hasattr(model, name)
    model.fit(X, y, sensitive_features=groups)
    quote = model.receipt_.quote
    assert (model.privacy_, model.plan_) == (quote.privacy, quote.plan)
    assert (model.noise_multiplier_, model.groups_) == (quote.noise_multiplier, ("a", "b"))
    with pytest.raises(AttributeError):
        model.privacy_ = None
    model.receipt_ = replace(model.receipt_, quote=replace(quote, privacy=None))
    assert "privacy_ is not what it left" in model._changed_since_fit()


@pytest.mark.filterwarnings("ignore:The path does not keep")
def test_a_model_of_an_earlier_version_has_new_parameters_at_their_defaults() -> None:
    X, y, groups = people()
    fitted = FairPathClassifier(**FAST).fit(X, y, sensitive_features=groups)
    model = as_of_before("threshold", fitted)
    assert model.threshold == 0.5
    assert np.array_equal(model.predict(X), fitted.predict(X))
    assert certify(model).privacy == certify(fitted).privacy
    model.threshold = 0.25
    assert certify(model).privacy.is_void


def test_a_certificate_of_a_model_of_an_earlier_version_still_belongs_to_it() -> None:
    """New parameters at their defaults leave the digest of the whole model as it was."""
    X, y, _ = people()
    model = as_of_before(
        "costs", as_of_before("threshold_share", DPSGDClassifier(**FAST).fit(X, y))
    )
    certificate = certify(model)  # of what the earlier version knew
    assert "parameter costs" not in model._digest_state()
    assert certificate.verify(model)
    model.costs = {"no": 1, "yes": 5}
    assert "parameter costs" in model._digest_state()
    assert not certificate.verify(model)


def as_of_before(name: str, model: Any) -> Any:
    """Copy a model as if it had been stored before it had a parameter."""
    digests = {n: text for n, text in model.receipt_.digests.items() if n != f"parameter {name}"}
    state = model.__getstate__() | {"receipt_": model.receipt_.settled(digests)}
    del state[name]
    found = object.__new__(type(model))
    found.__setstate__(state)
    return found


def test_a_model_from_before_there_were_receipts_is_refused() -> None:
    state = {"epsilon": 1.0, "fit_digests_": {}, "privacy_": None}
    with pytest.raises(UnboundModelError, match="Fit it again"):
        DPSGDClassifier().__setstate__(state)
