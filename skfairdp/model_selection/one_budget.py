"""One budget for a Pipeline that learns from the rows more than once."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from skfairdp.base import PrivateEstimator, PrivatePredictor
from skfairdp.foundation.figures import as_given, significant_up
from skfairdp.foundation.parameters import PROBABILITY, Number, check_parameters, check_values
from skfairdp.preprocessing import PrivateTableEncoder
from skfairdp.privacy.accounting.plan_cost import compose
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import as_ledger
from skfairdp.privacy.ledger.totals import covered
from skfairdp.receipts import Charge, Quote, RowFacts
from skfairdp.receipts.quoted import priced
from skfairdp.records import Given
from skfairdp.records.stored_rows import StoredRows, made_up

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
    y: ArrayLike | None = None,
    *,
    epsilon: float,
    table_share: float = 0.3,
    sensitive_features: ArrayLike | None = None,
    person_ids: ArrayLike | None = None,
) -> Pipeline:
    """Fit a Pipeline of a private table encoder and a private model under one budget.

    Parameters
    ----------
    pipeline : Pipeline
        With a `PrivateTableEncoder` and, last, a classifier or regressor of this package that has
        an `epsilon`. The encoder may be a part of a `ColumnTransformer` that names its columns in
        a list. It is cloned; other steps have to learn nothing from the rows.
    X : DataFrame or array-like of shape (n_samples, n_features)
        Private rows; `skfairdp.datasets.ParquetRows` and a `numpy.memmap` are read in parts.
    y : array-like of shape (n_samples,), optional
        Their labels, or numbers. None for rows that come with them.
    epsilon : float
        Budget of the whole in nats, at the last step's delta (and the table's, a tenth of it at
        most, where the last step buys group sizes).
    table_share : float, default=0.3
        Epsilon of the encoder, alone, in that of the whole. Because the releases are composed
        and not added up, 0.3 costs the last step about 5 in 100 of its own.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), optional
        Groups, for the last step.
    person_ids : array-like of shape (n_samples,), optional
        Whose row it is, where a person may have several: the budget is then for all rows of a
        person. Both encoder and last step have to take them.

    Returns
    -------
    Pipeline
        Fitted. Its certificate states a total of at most `epsilon`, and at least 0.99 of it.

    Raises
    ------
    ValueError
        If the Pipeline, a parameter, the budget, labels, groups or ids are not as described:
        nothing is charged then. The last step is asked beforehand, for rows without levels.
    BudgetExceededError
        The ledger that both steps name has no room for them; nothing is charged. As its first
        entries they are one plan, whose total is that of the certificate.

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
    if not isinstance(pipeline, Pipeline):
        raise ValueError(
            f"'pipeline' is a {type(pipeline).__name__}. Allowed is a scikit-learn Pipeline of a "
            "PrivateTableEncoder and a private model: make_pipeline(PrivateTableEncoder(), model)."
        )
    last, final = pipeline.steps[-1]
    ahead = [part for name, part in pipeline.get_params().items() if name.split("__")[0] != last]
    charging = [part for part in ahead if isinstance(part, PrivateEstimator)]
    _check_last(final, charging)
    held = [_table_in(step) for _, step in pipeline.steps[:-1]]
    tables = [found for found in held if found is not None]
    if len(tables) != 1 or len(charging) != 1:
        raise ValueError(
            "'pipeline' must have one PrivateTableEncoder, as a step or as a part of a "
            "ColumnTransformer that is a step, and no other step may be private or contain a "
            "private one. PrivateTableEncoder(columns={'name': 'drop'}) leaves columns out, and "
            "takes public bounds (low, high) and lists of categories for others."
        )
    check_values(epsilon=(epsilon, Number(1e-3)), table_share=(table_share, PROBABILITY))
    if any(getattr(step, "reproducible_noise", False) for step in (charging[0], final)):
        raise ValueError("reproducible_noise=True voids the guarantee: there is no budget to keep.")
    check_parameters(final, final._parameters)
    given = Given(X, y, sensitive_features, person_ids).read()
    steps = [(n, clone(step)) for n, step in pipeline.steps if step not in (None, "passthrough")]
    place = [_table_in(step) is not None for _, step in steps[:-1]].index(True)
    holder, model, whole = steps[place][1], steps[-1][1], ("whole", "passthrough")
    table: Any = _table_in(holder)
    later = Pipeline([whole, *steps[place + 1 : -1]])
    rows = Pipeline([whole, *steps[:place]]).fit_transform(X)
    table.set_params(epsilon=table_share * epsilon, delta=min(table.delta, final.delta / 10))
    if "noise_multiplier" in model.get_params(deep=False):
        model.set_params(noise_multiplier=None)
    given = replace(given, X=rows)
    facts, classes = _facts_of(model, given)
    counted = rows if holder is table else _columns_of(holder, table, rows)
    named = made_up(counted) if isinstance(counted, StoredRows) else counted
    columns = tuple(getattr(named, "columns", range(np.shape(named)[1])))
    spent = priced(table, replace(facts, groups=None, columns=columns)).privacy
    quote = _planned(model, spent, epsilon, table_share, facts)
    if not get_tags(model).input_tags.categorical:
        if table.encoding == "levels" and len(later.steps) == 1:
            raise ValueError(
                f"The table puts out levels, and {type(model).__name__} takes numbers: use "
                'PrivateTableEncoder(encoding="onehot"). Nothing was charged.'
            )
        model._try_out(quote, (len(columns),), classes)
    charges = Charge(table), Charge(model, stated=quote.privacy)
    charges[0].together_with(charges[1])
    try:
        own = replace(given, X=counted, y=None, sensitive_features=None)
        table._fit_under(own, charges[0])
        if holder is not table:
            rows = _around(holder, table).fit_transform(rows)
        else:
            rows = table.transform(rows)
        rows = later.fit_transform(rows)
        # A plan made before the table was seen composes with it. Another one was chosen by
        # looking: where there is a budget, it is charged in addition to the plan.
        facts = replace(facts, n_features=np.shape(rows)[1])
        charge = charges[1]
        if priced(model, facts).privacy != quote.privacy:
            book = as_ledger(model.ledger)
            if book is not None and book.budget is None:
                charge.give_back()
            charge = Charge(model)
            _planned(model, spent, epsilon, table_share, facts)
        model._fit_under(replace(given, X=rows), charge)
    except BaseException as error:
        if hasattr(table, "privacy_"):
            text = significant_up(table.privacy_.epsilon)
            error.add_note(f"The table was fitted before this error: count ε = {text} as spent.")
            charges[1].note(error)
        error.__notes__ = [*dict.fromkeys(getattr(error, "__notes__", ()))]
        raise
    return Pipeline(steps, memory=pipeline.memory)


def _check_last(final: Any, charging: list[Any]) -> None:
    """Refuse a last step that shares no budget with a table; the message says what does."""
    if getattr(final, "protects", "record") != "record":
        raise ValueError(_NO_TOTAL)
    if hasattr(final, "param_distributions"):
        raise ValueError(
            f"'pipeline' ends in a {type(final).__name__}, whose number of runs is random, so no "
            "part of the budget can be set aside for a table. Give both their own epsilon and "
            "call fit: make_pipeline(PrivateTableEncoder(epsilon=0.3), PrivateSearchCV(classifier, "
            "..., epsilon=0.9)), whose certificate states the total of both."
        )
    if not (isinstance(final, PrivatePredictor) and {"epsilon", "delta"} <= set(vars(final))):
        raise ValueError(
            "'pipeline' must end in a classifier or regressor of skfairdp with parameters epsilon "
            f"and delta; got {type(final).__name__}."
        )
    if not charging:
        raise ValueError(
            "No step of 'pipeline' before the last one learns under epsilon, so there is nothing "
            "to share. Set epsilon on the last step and call fit, which then costs that epsilon; "
            "or learn bounds and categories by a PrivateTableEncoder."
        )


def _table_in(step: Any) -> PrivateTableEncoder | None:
    """Table encoder that a step is, or that is a part of a ColumnTransformer; else None."""
    if isinstance(step, PrivateTableEncoder):
        return step
    if type(step) is not ColumnTransformer:
        return None
    parts = [part for _, part, _ in step.transformers if isinstance(part, PrivateTableEncoder)]
    return parts[0] if len(parts) == 1 else None


def _columns_of(holder: ColumnTransformer, table: PrivateTableEncoder, rows: Any) -> pd.DataFrame:
    """Columns that a ColumnTransformer hands to its table encoder; before anything is charged."""
    (listed,) = [columns for _, part, columns in holder.transformers if part is table]
    named = isinstance(rows, pd.DataFrame) and isinstance(listed, list) and len(listed) > 0
    if not named or not all(isinstance(name, str) and name in rows.columns for name in listed):
        raise ValueError(
            "A ColumnTransformer around a PrivateTableEncoder needs a DataFrame, and a list of its "
            "columns by name, such as ['age', 'job']; nothing was charged. Without a "
            "ColumnTransformer, PrivateTableEncoder(columns={'name': 'drop'}) leaves columns out."
        )
    return rows[listed]


def _around(holder: ColumnTransformer, table: PrivateTableEncoder) -> ColumnTransformer:
    """Put the fitted table into its ColumnTransformer, which else would fit a copy of it."""
    return holder.set_params(
        transformers=[
            (name, FrozenEstimator(part) if part is table else part, columns)
            for name, part, columns in holder.transformers
        ]
    )


def _facts_of(model: Any, given: Given) -> tuple[RowFacts, np.ndarray | None]:
    """Public facts of a fit to rows whose columns are not known yet, and the classes.

    Refuses labels, groups and persons that the fit would refuse.
    """
    seen, (n, n_columns) = clone(model), np.shape(given.X)
    blank = np.zeros((n, 1))
    classes = None
    if is_regressor(seen):
        seen._numbers_of_fit(blank, given.y)
    else:
        _, classes, _ = seen._rows_of_fit(blank, given.y, seen.classes)
    seen._check_takes(given.sensitive_features, persons=given.person_ids is not None)
    groups = seen._encode_groups(given.sensitive_features, n)
    persons = given.persons(n, int(getattr(seen, "max_rows_per_person", 1)))
    n_classes = 2 if classes is None else len(classes)
    known = {"n_features": n_columns, "unit": given.unit, "n_classes": n_classes}
    facts = RowFacts.of(n, groups, persons, **known)
    return facts, classes


def _planned(
    model: Any,
    spent: PrivacyGuarantee | None,
    epsilon: float,
    table_share: float,
    facts: RowFacts,
) -> Quote:
    """Set the epsilon of the last step to what the table leaves; price it."""
    share, most = epsilon * math.sqrt(1.0 - table_share**2), epsilon
    for _ in range(_MOST_TRIES):
        model.set_params(epsilon=share)
        quote = priced(model, facts)
        stated = quote.privacy
        if spent is None or stated is None or stated.protects != spent.protects:
            raise ValueError(_NO_TOTAL)
        total = compose(covered([spent, stated], stated.adjacency, stated.protects)).epsilon
        if _NEAR * epsilon <= total <= epsilon:
            return quote
        most = share if total > epsilon else most
        share = min(share * 0.5 * (1.0 + _NEAR) * epsilon / total, 0.5 * (share + most))
    raise ValueError(
        f"No epsilon of the last step gives a total of 'epsilon' = {as_given(epsilon)}: give a "
        "larger 'epsilon', or a smaller share to the table."
    )
