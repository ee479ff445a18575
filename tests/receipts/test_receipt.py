"""Receipts: what a fit left, without a private number."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
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
from skfairdp.exceptions import UnboundModelError
from skfairdp.receipts import Quote, Receipt, RowFacts
from tests.common.roster import EVERY, build, each, people

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
