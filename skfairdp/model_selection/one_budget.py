"""One budget for a Pipeline that learns from the rows more than once."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skfairdp.base import PrivateClassifier, PrivateEstimator
from skfairdp.fairness.groups import groups_of_records
from skfairdp.figures import as_given
from skfairdp.labels import count_rows, encode_labels, label_column, refuse_labels
from skfairdp.parameters import PROBABILITY, Number, check_arguments
from skfairdp.persons import encode_persons, refuse_other_order
from skfairdp.preprocessing import PrivateTableEncoder
from skfairdp.privacy.accounting.plan_cost import compose
from skfairdp.privacy.ledger.totals import covered

# A total from this share of the budget on is near enough.
_NEAR = 0.99
_MOST_TRIES = 12
_NO_TOTAL = (
    "The last step protects the sensitive features alone, and what a table learned under epsilon "
    "protects is records: a certificate has no total of the two. Features are public there: take "
    "PublicBinner, or PublicScaler and PublicEncoder, in place of the PrivateTableEncoder."
)


def fit_within(
    pipeline: Pipeline,
    X: Any,
    y: ArrayLike,
    *,
    epsilon: float,
    table_share: float = 0.3,
    sensitive_features: ArrayLike | None = None,
    person_ids: ArrayLike | None = None,
) -> Pipeline:
    """Fit a Pipeline of a private table encoder and a private classifier under one budget.

    Parameters
    ----------
    pipeline : Pipeline
        With a `PrivateTableEncoder` and, last, a classifier of this package that has an
        `epsilon`. It is cloned; other steps have to learn nothing from the rows.
    X : DataFrame or array-like
        Private rows.
    y : array-like
        Their labels.
    epsilon : float
        Budget of the whole in nats, at the classifier's delta.
    table_share : float, default=0.3
        Epsilon of the encoder, alone, in that of the whole. Because the releases are composed
        and not added up, 0.3 costs the classifier about 5 in 100 of its own.
    sensitive_features : array-like, optional
        Groups, for the classifier.
    person_ids : array-like, optional
        Whose row it is, where a person may have several: the budget is then for all rows of a
        person. Both encoder and classifier have to take them.

    Returns
    -------
    Pipeline
        Fitted. Its certificate states a total of at most `epsilon`, and at least 0.99 of it.

    Raises
    ------
    ValueError
        If the Pipeline, the budget, labels, groups or ids are not as described: nothing is charged
        then. What else the classifier refuses, it refuses after the encoder's charge.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skfairdp import DPAdditiveClassifier, PrivateTableEncoder, certify
    >>> from skfairdp.model_selection import fit_within
    >>> X = np.random.default_rng(0).normal(size=(5000, 2))
    >>> steps = make_pipeline(PrivateTableEncoder(), DPAdditiveClassifier(max_epochs=5))
    >>> model = fit_within(steps, X, X[:, 0] > 0, epsilon=1.0)
    >>> 0.99 <= certify(model).privacy.epsilon <= 1.0
    True
    """
    final = pipeline.steps[-1][1]
    tables = [step for _, step in pipeline.steps[:-1] if isinstance(step, PrivateTableEncoder)]
    charging = [step for _, step in pipeline.steps[:-1] if isinstance(step, PrivateEstimator)]
    named = isinstance(final, PrivateClassifier) and "epsilon" in final.get_params(deep=False)
    if getattr(final, "protects", "record") != "record":
        raise ValueError(_NO_TOTAL)
    if len(tables) != 1 or tables != charging or not named:
        raise ValueError(
            "'pipeline' must have one PrivateTableEncoder and end in a classifier of skfairdp "
            "with a parameter epsilon, and no other step may be private."
        )
    check_arguments(locals(), epsilon=Number(1e-3), table_share=PROBABILITY)
    if any(getattr(step, "reproducible_noise", False) for step in (tables[0], final)):
        raise ValueError("reproducible_noise=True voids the guarantee: there is no budget to keep.")
    final._check_has_groups(sensitive_features)
    refuse_other_order(X=X, y=y, sensitive_features=sensitive_features, person_ids=person_ids)
    _check_people(final, count_rows(X), y, sensitive_features, person_ids)
    steps, rows = [], X
    whose = {} if person_ids is None else {"person_ids": person_ids}
    for name, step in pipeline.steps[:-1]:
        if step in (None, "passthrough"):
            continue
        fitted = clone(step)
        if isinstance(fitted, PrivateTableEncoder):
            delta = min(step.delta, final.delta / 10)
            fitted.set_params(epsilon=table_share * epsilon, delta=delta)
            spent = fitted._quote(rows, None, **whose)
            rows = fitted.fit(rows, **whose).transform(rows)
        else:
            rows = fitted.fit_transform(rows)
        steps.append((name, fitted))
    model = clone(final)
    if "noise_multiplier" in model.get_params(deep=False):
        model.set_params(noise_multiplier=None)
    share, most = epsilon * math.sqrt(1.0 - table_share**2), epsilon
    for _ in range(_MOST_TRIES):
        model.set_params(epsilon=share)
        stated = model._quote(rows, y, sensitive_features, **whose)
        if spent is None or stated is None or stated.protects != spent.protects:
            raise ValueError(_NO_TOTAL)
        total = compose(covered([spent, stated], stated.adjacency, stated.protects)).epsilon
        if _NEAR * epsilon <= total <= epsilon:
            break
        most = share if total > epsilon else most
        share = min(share * 0.5 * (1.0 + _NEAR) * epsilon / total, 0.5 * (share + most))
    else:
        raise ValueError(f"No epsilon of the last step makes a total of {as_given(epsilon)}.")
    model.fit(rows, y, sensitive_features=sensitive_features, **whose)
    return Pipeline([*steps, (pipeline.steps[-1][0], model)], memory=pipeline.memory)


def _check_people(final: Any, n: int, y: Any, sensitive_features: Any, person_ids: Any) -> None:
    """Refuse labels, groups and ids that the last step would, before anything is charged."""
    known = final.classes is not None
    labels = label_column(y, n, declared=known)
    if not known:
        refuse_labels(labels)
    encode_labels(labels, final.classes, multiclass=final._multiclass)
    persons = None if person_ids is None else encode_persons(person_ids, n)
    if sensitive_features is not None and hasattr(final, "_encode_groups"):
        groups_of_records(final._encode_groups(sensitive_features, n), persons)
