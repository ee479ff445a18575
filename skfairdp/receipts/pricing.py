"""Prices of single estimators, by the function that their fits charge by."""

from __future__ import annotations

import dataclasses
from typing import Any

from skfairdp.foundation.parameters import check_parameters
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts.quoted import Quote
from skfairdp.records.facts import RowFacts


def has_price(model: Any) -> bool:
    """Whether a model is an estimator of this package, whose fit has a plan to price."""
    return hasattr(type(model), "_priced")


def priced_alone(model: Any, facts: RowFacts) -> Quote:
    """Price one estimator of this package, with what its ledger has left after it."""
    return priced(model, facts).with_ledger(getattr(model, "ledger", None))


def priced(model: Any, facts: RowFacts) -> Quote:
    """Price one estimator of this package; its ledger is not read."""
    # A copy: plans may note public facts on the estimator.
    model = type(model)(**model.get_params(deep=False))
    check_parameters(model, model._parameters)
    model._check_settings()
    model._check_takes(facts.groups, persons=facts.unit == "person")
    noise = NoiseSource(0 if model.reproducible_noise else None)
    facts = model._facts_of_fit(facts)
    found: Quote = model._priced(facts, noise)
    if found.plan is None and found.bought:
        found = dataclasses.replace(found, expected_plan=model._expected_plan(facts, noise))
    return found


def inner_quote(outer: Any, inner: Any, facts: RowFacts) -> Quote:
    """Price the inner fit of an estimator that adds no cost."""
    if not has_price(inner):
        stated = PrivacyGuarantee.void(
            f"{type(inner).__name__} is not an estimator of skfairdp: nothing bounds what it "
            "reveals about its training rows."
        )
        return Quote(type(outer).__name__, facts, stated, charge=None)
    found = priced(inner, facts)
    return dataclasses.replace(found, estimator=f"{type(outer).__name__} around {found.estimator}")
