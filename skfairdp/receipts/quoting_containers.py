"""Quotes of Pipelines and searches, from those of their steps and candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import FeatureUnion, Pipeline

from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.totals import totals
from skfairdp.receipts.quoted import Quote, has_price, priced, priced_alone
from skfairdp.receipts.step_rules import reasons_of_container
from skfairdp.receipts.unwrap import charges_privacy, kind_of, learns_from_rows, leaves_of
from skfairdp.records.facts import RowFacts

_MOST_CANDIDATES = 100


def quote_of_container(model: Any, facts: RowFacts) -> Quote:
    """Price the fits of a Pipeline or search."""
    if isinstance(model, Pipeline):
        return _of_pipeline(model, facts)
    if hasattr(model, "estimator") and (
        hasattr(model, "param_grid") or hasattr(model, "param_distributions")
    ):
        return _of_search(model, facts)
    raise TypeError(
        "quote takes an estimator of skfairdp, a Pipeline or a search of scikit-learn; got "
        f"{type(model).__name__}, whose fits have no plan to price."
    )


def _quoted(model: Any, facts: RowFacts) -> Quote:
    return priced_alone(model, facts) if has_price(model) else quote_of_container(model, facts)


def _of_pipeline(model: Pipeline, facts: RowFacts) -> Quote:
    parts, charged, ledger = [], [], None
    reasons = [f"{name!r} of the Pipeline: {reason}." for name, reason in _of_containers(model)]
    for place, (name, step) in enumerate(_steps(model)):
        # What columns an earlier step puts out is not known.
        own = facts if place == 0 else dataclasses.replace(facts, n_features=None, columns=())
        if has_price(step):
            private = [(name, step, own)]
        else:
            private = list(_private_parts(name, step, own))
            reasons += _learned(name, step, [part for _, part, _ in private])
        for where, private_step, own in private:
            part = priced(private_step, own)
            parts.append(part)
            if part.charge is not None:
                charged.append(part.charge)
            ledger = getattr(private_step, "ledger", None) if ledger is None else ledger
            if part.privacy is None:
                reasons.append(f"Step {where!r} trains without noise.")
    stated = _composed([part.privacy for part in parts if part.privacy is not None], reasons)
    whole = Quote(type(model).__name__, facts, stated, charge=None, steps=tuple(parts))
    return whole.with_ledger(ledger, charged)


def _of_search(search: Any, facts: RowFacts) -> Quote:
    grid = getattr(search, "param_grid", None)
    if grid is None:
        return _whole_search(
            search, [_quoted(search.estimator, facts)], facts, "Its candidates are drawn later."
        )
    candidates = list(ParameterGrid(grid))
    if len(candidates) > _MOST_CANDIDATES:
        raise ValueError(
            f"The search has {len(candidates)} candidates; a quote prices at most "
            f"{_MOST_CANDIDATES}. Quote its estimator instead."
        )
    parts = []
    for point in candidates:
        copies = {name: clone(value, safe=False) for name, value in point.items()}
        parts.append(_quoted(clone(search.estimator).set_params(**copies), facts))
    said = f"{len(parts)} candidates, each quoted for all rows; folds are fitted on fewer."
    return _whole_search(search, parts, facts, said)


def _whole_search(search: Any, parts: list[Quote], facts: RowFacts, said: str) -> Quote:
    reason = (
        f"{type(search).__name__} chooses by scores of its training rows without noise, and those "
        "have no finite cost. skfairdp.model_selection.PrivateSearchCV has a finite one."
    )
    first = parts[0].privacy
    kind: Any = {} if first is None else {"adjacency": first.adjacency, "protects": first.protects}
    stated = PrivacyGuarantee.void(reason, **kind)
    return Quote(type(search).__name__, facts, stated, steps=tuple(parts), note=said)


def _composed(stated: list[PrivacyGuarantee], reasons: list[str]) -> PrivacyGuarantee | None:
    """State the guarantee of several fits on the same rows together."""
    relations = {(one.adjacency, one.protects) for one in stated if not one.is_void}
    if reasons or len(totals(stated)) > 1:
        several = "Steps protect different things, and their costs have no total."
        kind: Any = {}
        if relations:
            kind = dict(zip(("adjacency", "protects"), min(relations), strict=True))
        return PrivacyGuarantee.void(*(reasons or [several]), **kind)
    return totals(stated)[0] if stated else None


def _steps(model: Pipeline) -> Iterator[tuple[str, Any]]:
    """Steps in order, those of inner Pipelines too; a subclass may do more than its steps."""
    for name, step in model.steps:
        if step is None or step == "passthrough":
            continue
        if type(step) is Pipeline:
            yield from _steps(step)
        else:
            yield name, step


def _of_containers(model: Pipeline) -> Iterator[tuple[str, str]]:
    """Parameters of a Pipeline and of those inside it that may keep rows, with the reasons."""
    if type(model) is not Pipeline:
        yield type(model).__name__, "a subclass may learn what its steps do not"
        return
    yield from reasons_of_container(model)
    for _, step in model.steps:
        if type(step) is Pipeline:
            yield from _of_containers(step)


def _private_parts(name: str, step: Any, facts: RowFacts) -> Iterator[tuple[str, Any, RowFacts]]:
    """Private parts of a step that gives each part all columns, or columns by name or place."""
    if type(step) is FeatureUnion:
        for key, part in step.transformer_list:
            if has_price(part):
                yield f"{name}__{key}", part, facts
    elif type(step) is ColumnTransformer:
        for key, part, columns in [*step.transformers, ("remainder", step.remainder, None)]:
            listed = _left_over(step, facts) if columns is None else columns
            if has_price(part) and isinstance(listed, list):
                own = dataclasses.replace(facts, n_features=len(listed), columns=tuple(listed))
                yield f"{name}__{key}", part, own


def _left_over(step: ColumnTransformer, facts: RowFacts) -> list[Any] | None:
    """Columns that a ColumnTransformer lists for no part; None where that is not known."""
    named = [columns for _, _, columns in step.transformers]
    if not facts.columns or not all(isinstance(columns, list) for columns in named):
        return None
    listed = [one for columns in named for one in columns]
    if not all(one in facts.columns or type(one) is int for one in listed):
        return None
    # As scikit-learn has it, a number is a place and a text a name.
    used = {facts.columns[one] if type(one) is int else one for one in listed}
    return [column for column in facts.columns if column not in used]


def _learned(name: str, step: Any, known: Sequence[Any]) -> Iterator[str]:
    """Say which parts of a step of another library take more from the rows than their form.

    By the rules of certificates, on a step that is not fitted. `known`: parts with a price.
    """
    for where, leaf in leaves_of(name, step):
        if any(leaf is part for part in known):
            continue
        if charges_privacy(leaf) or learns_from_rows(leaf):
            yield (
                f"Step {where!r} ({kind_of(leaf)}) learns from the rows without noise, unless it "
                "is listed in public_steps when the model is certified."
            )
