"""Quotes of estimators, Pipelines and searches."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from skfairdp.receipts.quoted import Quote, has_price, priced_alone
from skfairdp.records.facts import checked_facts


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
    if has_price(model):
        return priced_alone(model, facts)
    # Loads much of scikit-learn, which estimators of this package do not need.
    from skfairdp.receipts.quoting_containers import quote_of_container

    return quote_of_container(model, facts)
