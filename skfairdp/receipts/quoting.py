"""Quotes of estimators, Pipelines and searches."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from skfairdp.foundation.parameters import check_parameters
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts.facts import RowFacts, checked_facts
from skfairdp.receipts.quoted import Quote


def quote(
    model: Any,
    *,
    n_rows: int | None = None,
    groups: Mapping[Any, int] | Sequence[Any] | None = None,
    n_features: int | None = None,
    classes: Sequence[Any] | int | None = None,
    n_persons: int | None = None,
    n_public: int | None = None,
    columns: Sequence[Hashable] | None = None,
    public_groups: bool = False,
) -> Quote:
    """Price a fit from public facts: no row is needed, and none is looked at.

    An estimator of this package computes its plan and what it charges by the same function in
    `fit` and here, so that both agree to the last bit for the same facts.

    Parameters
    ----------
    model : estimator, Pipeline or search
        A private estimator; a Pipeline of steps; or a search of scikit-learn, whose fits are
        listed and composed.
    n_rows : int or None, default=None
        Number of training rows. None takes the sum of `groups`.
    groups : mapping of group to int, sequence of groups or None, default=None
        Groups with the number of their rows (of their persons, with `n_persons`). Equal sizes
        where they are only named. None: the fit gets no groups.
    n_features : int or None, default=None
        Number of columns. Some mechanisms need it; the verdict is stricter with it.
    classes : sequence, int or None, default=None
        Class labels, or how many there are. None: two.
    n_persons : int or None, default=None
        Number of persons, where a person may have several rows (``person_ids`` at fit).
    n_public : int or None, default=None
        Number of public rows, for mechanisms that learn from some.
    columns : sequence or None, default=None
        Names of the columns, for a `PrivateTableEncoder`.
    public_groups : bool, default=False
        Whether the public rows come with groups.

    Returns
    -------
    Quote
        Plan, epsilon and delta, noise of each release, what a ledger would have left, and whether
        there are too few records for a useful model.

    Raises
    ------
    ValueError
        A parameter or a fact is not allowed: what `fit` would refuse too, as far as facts say.
    TypeError
        `model` is none of these.

    Examples
    --------
    >>> from skfairdp import DPSGDClassifier, quote
    >>> price = quote(DPSGDClassifier(epsilon=1.0), n_rows=30_000, n_features=20)
    >>> price.plan.steps, round(price.epsilon, 2), price.verdict.level
    (2360, 1.0, 'useful')
    >>> [(one.name, one.times, one.expected_records) for one in price.releases]
    [('gradient', 2360, 256.0)]
    """
    facts = checked_facts(
        n_rows, groups, n_features, classes, n_persons, n_public, columns, public_groups
    )
    return quoted(model, facts)


def priced(model: Any, facts: RowFacts) -> Quote:
    """Price one estimator of this package; its ledger is not read."""
    # A copy: plans may note public facts on the estimator.
    model = type(model)(**model.get_params(deep=False))
    check_parameters(model, model._parameters)
    model._check_settings()
    model._check_has_groups(facts.groups)
    if facts.unit == "person":
        model._check_takes_persons()
    noise = NoiseSource(0 if model.reproducible_noise else None)
    facts = model._facts_of_fit(facts)
    found: Quote = model._priced(facts, noise)
    if found.plan is None and found.bought:
        found = dataclasses.replace(found, expected_plan=model._expected_plan(facts, noise))
    return found


def inner_quote(outer: Any, inner: Any, facts: RowFacts) -> Quote:
    """Price the inner fit of an estimator that adds no cost."""
    if not hasattr(type(inner), "_priced"):
        stated = PrivacyGuarantee.void(
            f"{type(inner).__name__} is not an estimator of skfairdp: nothing bounds what it "
            "reveals about its training rows."
        )
        return Quote(type(outer).__name__, facts, stated, charge=None)
    found = priced(inner, facts)
    return dataclasses.replace(found, estimator=f"{type(outer).__name__} around {found.estimator}")


def quoted(model: Any, facts: RowFacts) -> Quote:
    """Price an estimator of this package, a Pipeline or a search."""
    if hasattr(type(model), "_priced"):
        return priced(model, facts).with_ledger(getattr(model, "ledger", None))
    # Loads much of scikit-learn, which estimators of this package do not need.
    from skfairdp.receipts.quoting_containers import quote_of_container

    return quote_of_container(model, facts)
